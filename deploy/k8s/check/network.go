package main

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The named port of the operator listeners.
const operatorPort = "operators"

// checkNetwork checks that traffic is denied by default, that every exception selects pods, and that none
// opens the operators' routes.
func (s *System) checkNetwork() {
	closed := false
	for _, policy := range s.policies {
		spec := policy.Spec
		all := len(spec.PodSelector.MatchLabels) == 0 && len(spec.PodSelector.MatchExpressions) == 0
		closed = closed || all && len(spec.PolicyTypes) == 2 && len(spec.Ingress)+len(spec.Egress) == 0
		pods := s.selected(&spec.PodSelector)
		if len(pods) == 0 {
			s.fault("NetworkPolicy %s: selects no pods", policy.Name)
		}
		for _, rule := range spec.Ingress {
			if len(rule.From) == 0 || len(rule.Ports) == 0 {
				s.fault("NetworkPolicy %s: allows every client or every port", policy.Name)
			}
			s.peers(policy.Name, rule.From)
			s.checkPorts(policy.Name, rule.Ports, pods)
		}
		for _, rule := range spec.Egress {
			if len(rule.Ports) == 0 {
				s.fault("NetworkPolicy %s: allows its pods to connect to every port", policy.Name)
			}
			s.checkPorts(policy.Name, rule.Ports, s.peers(policy.Name, rule.To))
		}
	}
	if !closed {
		s.fault("no NetworkPolicy denies all traffic in both directions")
	}
	for _, namespace := range s.namespaces {
		if namespace.Labels["pod-security.kubernetes.io/enforce"] != "restricted" {
			s.fault("Namespace %s: does not enforce restricted pods", namespace.Name)
		}
	}
	s.checkOperatorServices()
	s.checkIngresses()
}

// checkOperatorServices checks that the operators' port of each service is in a Service of its own, which is
// not reachable from outside the cluster.
func (s *System) checkOperatorServices() {
	for _, service := range s.services {
		for _, port := range service.Spec.Ports {
			isOperators := port.TargetPort.StrVal == operatorPort
			if isOperators != strings.HasSuffix(service.Name, "-"+operatorPort) {
				s.fault("Service %s: the operators' port needs a Service of its own, named -%s", service.Name, operatorPort)
			}
			if isOperators && service.Spec.Type != corev1.ServiceTypeClusterIP {
				s.fault("Service %s: operators' ports must not leave the cluster", service.Name)
			}
		}
	}
}

// peers returns the deployments of this namespace that a rule selects. Each selector must match some.
func (s *System) peers(policy string, peers []networkingv1.NetworkPolicyPeer) []*appsv1.Deployment {
	var found []*appsv1.Deployment
	for _, peer := range peers {
		if peer.PodSelector == nil || peer.NamespaceSelector != nil {
			continue
		}
		pods := s.selected(peer.PodSelector)
		if len(pods) == 0 {
			s.fault("NetworkPolicy %s: a peer selects no pods", policy)
		}
		found = append(found, pods...)
	}
	return found
}

func (s *System) checkPorts(policy string, ports []networkingv1.NetworkPolicyPort, pods []*appsv1.Deployment) {
	for _, port := range ports {
		if port.Port == nil || port.Port.Type != intstr.String {
			continue
		}
		// A port name is resolved in the selected pods, so some must be selected.
		if len(pods) == 0 {
			s.fault("NetworkPolicy %s: port %s of unknown pods", policy, port.Port.StrVal)
		}
		for _, pod := range pods {
			if !hasPort(pod, port.Port.StrVal) {
				s.fault("NetworkPolicy %s: %s has no port %s", policy, pod.Name, port.Port.StrVal)
			}
		}
	}
}

// checkIngresses checks that only listed routes are public, and that /admin is not.
func (s *System) checkIngresses() {
	for _, ingress := range s.ingresses {
		if ingress.Spec.DefaultBackend != nil {
			s.fault("Ingress %s: a default backend forwards every path", ingress.Name)
		}
		for _, rule := range ingress.Spec.Rules {
			for _, path := range rule.HTTP.Paths {
				if path.Path == "/" || strings.HasPrefix(path.Path, "/admin") || *path.PathType == networkingv1.PathTypeImplementationSpecific {
					s.fault("Ingress %s: path %s may forward /admin", ingress.Name, path.Path)
				}
				s.checkBackend(ingress.Name, path.Backend.Service)
			}
		}
	}
}

func (s *System) checkBackend(ingress string, backend *networkingv1.IngressServiceBackend) {
	for _, service := range s.services {
		if backend == nil || service.Name != backend.Name {
			continue
		}
		if strings.HasSuffix(service.Name, "-"+operatorPort) {
			s.fault("Ingress %s: forwards the operators' port of %s", ingress, service.Name)
		}
		for _, port := range service.Spec.Ports {
			if port.Name == backend.Port.Name || port.Port == backend.Port.Number {
				return
			}
		}
	}
	s.fault("Ingress %s: a backend does not exist", ingress)
}
