package main

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// System is all objects of one overlay.
type System struct {
	namespaces  []*corev1.Namespace
	accounts    []*corev1.ServiceAccount
	services    []*corev1.Service
	deployments []*appsv1.Deployment
	budgets     []*policyv1.PodDisruptionBudget
	scalers     []*autoscalingv2.HorizontalPodAutoscaler
	policies    []*networkingv1.NetworkPolicy
	ingresses   []*networkingv1.Ingress
	// Names and keys of config maps and secrets, by "ConfigMap/name" and "Secret/name".
	values map[string]map[string]string
	faults []string
}

func (s *System) add(object runtime.Object) error {
	switch object := object.(type) {
	case *corev1.Namespace:
		s.namespaces = append(s.namespaces, object)
	case *corev1.ServiceAccount:
		s.accounts = append(s.accounts, object)
	case *corev1.Service:
		s.services = append(s.services, object)
	case *appsv1.Deployment:
		s.deployments = append(s.deployments, object)
	case *batchv1.CronJob:
		s.addCronJob(object)
	case *policyv1.PodDisruptionBudget:
		s.budgets = append(s.budgets, object)
	case *autoscalingv2.HorizontalPodAutoscaler:
		s.scalers = append(s.scalers, object)
	case *networkingv1.NetworkPolicy:
		s.policies = append(s.policies, object)
	case *networkingv1.Ingress:
		s.ingresses = append(s.ingresses, object)
	case *corev1.ConfigMap:
		s.keep("ConfigMap/"+object.Name, object.Data)
	case *corev1.Secret:
		values := map[string]string{}
		for key, value := range object.Data {
			values[key] = string(value)
		}
		s.keep("Secret/"+object.Name, values)
	default:
		return fmt.Errorf("no rule checks %T; is it an older API version?", object)
	}
	return nil
}

func (s *System) keep(name string, values map[string]string) {
	if s.values == nil {
		s.values = map[string]map[string]string{}
	}
	s.values[name] = values
}

// problems applies all rules.
func (s *System) problems(sources Sources) []string {
	s.checkSelectors()
	s.checkScaling(sources)
	s.checkNetwork()
	owners := map[string]string{}
	for _, deployment := range s.deployments {
		s.checkPod(deployment, sources)
		s.checkEnvironment(deployment, sources, owners)
	}
	for name := range s.values {
		if owners[name] == "" {
			s.fault("%s is not used", name)
		}
	}
	s.checkLab(sources)
	slices.Sort(s.faults)
	return slices.Compact(s.faults)
}

func (s *System) fault(format string, values ...any) {
	s.faults = append(s.faults, fmt.Sprintf(format, values...))
}

// selected returns the deployments whose pods match the selector.
func (s *System) selected(selector *metav1.LabelSelector) []*appsv1.Deployment {
	picks, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		s.fault("%v", err)
		return nil
	}
	var found []*appsv1.Deployment
	for _, deployment := range s.deployments {
		if picks.Matches(labels.Set(deployment.Spec.Template.Labels)) {
			found = append(found, deployment)
		}
	}
	return found
}

// deployment returns the deployment of that name, or nil.
func (s *System) deployment(name string) *appsv1.Deployment {
	for _, deployment := range s.deployments {
		if deployment.Name == name {
			return deployment
		}
	}
	return nil
}

// isService reports whether a deployment is a service of the project and not a tool.
func isService(deployment *appsv1.Deployment) bool {
	return deployment.Labels["app.kubernetes.io/component"] == "service"
}

func hasPort(deployment *appsv1.Deployment, name string) bool {
	for _, container := range deployment.Spec.Template.Spec.Containers {
		for _, port := range container.Ports {
			if port.Name == name {
				return true
			}
		}
	}
	return false
}
