package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/apps"
	appsvalidation "k8s.io/kubernetes/pkg/apis/apps/validation"
	"k8s.io/kubernetes/pkg/apis/autoscaling"
	autoscalingvalidation "k8s.io/kubernetes/pkg/apis/autoscaling/validation"
	"k8s.io/kubernetes/pkg/apis/batch"
	batchvalidation "k8s.io/kubernetes/pkg/apis/batch/validation"
	"k8s.io/kubernetes/pkg/apis/core"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/networking"
	networkingvalidation "k8s.io/kubernetes/pkg/apis/networking/validation"
	"k8s.io/kubernetes/pkg/apis/policy"
	policyvalidation "k8s.io/kubernetes/pkg/apis/policy/validation"

	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
)

// Strict: an unknown or duplicate field is an error.
var strict = serializer.NewCodecFactory(legacyscheme.Scheme, serializer.EnableStrict).UniversalDeserializer()

// decode reads an object as the API server does, sets its defaults and validates it.
func decode(yaml []byte) (runtime.Object, error) {
	object, version, err := strict.Decode(yaml, nil, nil)
	if err != nil {
		return nil, err
	}
	legacyscheme.Scheme.Default(object)
	internal, err := legacyscheme.Scheme.ConvertToVersion(object, runtime.InternalGroupVersioner)
	if err != nil {
		return nil, err
	}
	errors, err := validate(internal)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", version, err)
	}
	return object, errors.ToAggregate()
}

func validate(object runtime.Object) (field.ErrorList, error) {
	switch object := object.(type) {
	case *core.Namespace:
		return corevalidation.ValidateNamespace(object), nil
	case *core.ServiceAccount:
		return corevalidation.ValidateServiceAccount(object), nil
	case *core.ConfigMap:
		return corevalidation.ValidateConfigMap(object), nil
	case *core.Secret:
		return corevalidation.ValidateSecret(object), nil
	case *core.Service:
		return corevalidation.ValidateServiceCreate(object), nil
	case *apps.Deployment:
		options := pod.GetValidationOptionsFromPodTemplate(&object.Spec.Template, nil)
		return appsvalidation.ValidateDeployment(object, options), nil
	case *batch.CronJob:
		options := pod.GetValidationOptionsFromPodTemplate(&object.Spec.JobTemplate.Spec.Template, nil)
		return batchvalidation.ValidateCronJobCreate(object, options), nil
	case *policy.PodDisruptionBudget:
		return policyvalidation.ValidatePodDisruptionBudget(object, policyvalidation.PodDisruptionBudgetValidationOptions{}), nil
	case *autoscaling.HorizontalPodAutoscaler:
		return autoscalingvalidation.ValidateHorizontalPodAutoscaler(object), nil
	case *networking.NetworkPolicy:
		return networkingvalidation.ValidateNetworkPolicy(object, networkingvalidation.NetworkPolicyValidationOptions{}), nil
	case *networking.Ingress:
		return networkingvalidation.ValidateIngressCreate(object), nil
	}
	return nil, fmt.Errorf("unknown kind; add it to validate.go")
}
