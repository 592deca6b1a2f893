package main

import (
	"path"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// variable is one setting of a container and the object that it comes from.
type variable struct {
	value, from string
}

// checkEnvironment reports unknown settings, references to missing objects, and secrets that more than one
// service uses.
func (s *System) checkEnvironment(deployment *appsv1.Deployment, sources Sources, owners map[string]string) {
	name, pod := deployment.Name, deployment.Spec.Template.Spec
	for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
		variables := s.variables(name, container)
		for _, variable := range variables {
			owner := owners[variable.from]
			if strings.HasPrefix(variable.from, "Secret/") && owner != "" && owner != name {
				s.fault("%s goes to both %s and %s", variable.from, owner, name)
			}
			owners[variable.from] = name
		}
		if !isService(deployment) && name != labName && name != canaryName {
			if len(variables) > 0 {
				s.fault("Deployment %s: the settings of this tool are not checked; add a rule", name)
			}
			continue
		}
		program := name
		if name == canaryName {
			program = "chargeonce"
		}
		if len(container.Command) != 1 || path.Base(container.Command[0]) != program {
			s.fault("Deployment %s: container %s runs %v", name, container.Name, container.Command)
		}
		known, err := sources.settings(name)
		if err != nil {
			s.fault("Deployment %s: %v", name, err)
		}
		for key := range variables {
			if !known[key] {
				s.fault("Deployment %s: %s has no setting %s", name, container.Name, key)
			}
		}
		if isService(deployment) && !strings.HasPrefix(variables["DATABASE_URL"].from, "Secret/") {
			s.fault("Deployment %s: container %s has no DATABASE_URL from a secret", name, container.Name)
		}
	}
	if isService(deployment) {
		s.checkListen(name, pod.Containers[0], "LISTEN", "http")
		s.checkListen(name, pod.Containers[0], "OPERATOR_LISTEN", operatorPort)
		tokens := s.variables(name, pod.Containers[0])["OPERATOR_TOKENS"]
		if !strings.HasPrefix(tokens.from, "Secret/") {
			s.fault("Deployment %s: has no OPERATOR_TOKENS from a secret", name)
		}
	}
}

// variables resolves the environment as the kubelet does: later sources win, and `env` wins over `envFrom`.
func (s *System) variables(deployment string, container corev1.Container) map[string]variable {
	found := map[string]variable{}
	whole := func(from, prefix string) {
		values, exists := s.values[from]
		if !exists {
			s.fault("Deployment %s: there is no %s", deployment, from)
		}
		for key, value := range values {
			found[prefix+key] = variable{value, from}
		}
	}
	one := func(name, from, key string) {
		value, exists := s.values[from][key]
		if !exists {
			s.fault("Deployment %s: there is no %s in %s", deployment, key, from)
		}
		found[name] = variable{value, from}
	}
	for _, source := range container.EnvFrom {
		if source.ConfigMapRef != nil {
			whole("ConfigMap/"+source.ConfigMapRef.Name, source.Prefix)
		}
		if source.SecretRef != nil {
			whole("Secret/"+source.SecretRef.Name, source.Prefix)
		}
	}
	for _, env := range container.Env {
		switch from := env.ValueFrom; {
		case from != nil && from.ConfigMapKeyRef != nil:
			one(env.Name, "ConfigMap/"+from.ConfigMapKeyRef.Name, from.ConfigMapKeyRef.Key)
		case from != nil && from.SecretKeyRef != nil:
			one(env.Name, "Secret/"+from.SecretKeyRef.Name, from.SecretKeyRef.Key)
		default:
			found[env.Name] = variable{env.Value, "Deployment/" + deployment}
		}
	}
	return found
}

// checkListen checks that a service binds the port that probes and Services use.
func (s *System) checkListen(deployment string, container corev1.Container, setting, name string) {
	_, port, _ := strings.Cut(s.variables(deployment, container)[setting].value, "0.0.0.0:")
	for _, declared := range container.Ports {
		if declared.Name == name && strconv.Itoa(int(declared.ContainerPort)) == port {
			return
		}
	}
	s.fault("Deployment %s: %s is not 0.0.0.0 with the container's port %s", deployment, setting, name)
}
