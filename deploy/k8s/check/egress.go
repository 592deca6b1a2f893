package main

import (
	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The policy that scripts/chaos/on/kubernetes.sh deletes to cut payment off from the provider.
const cutPolicy = "payment-to-psp"

// checkEgress checks that a policy allows the deployment's pods to connect to a port outside the namespace.
func (s *System) checkEgress(from *appsv1.Deployment, port int) {
	for _, policy := range s.policies {
		for _, rule := range s.egressRules(policy, from) {
			if includesPort(rule.Ports, port, nil) && (len(rule.To) == 0 || rule.To[0].PodSelector == nil) {
				return
			}
		}
	}
	s.fault("Deployment %s: no NetworkPolicy allows it to connect to port %d", from.Name, port)
}

// checkCut checks that payment reaches the provider only through the policy that the scripts delete.
func (s *System) checkCut() {
	payment, provider := s.deployment("payment"), s.deployment("psp")
	if payment == nil || provider == nil {
		return
	}
	port := int(provider.Spec.Template.Spec.Containers[0].Ports[0].ContainerPort)
	var policies []string
	for _, policy := range s.policies {
		for _, rule := range s.egressRules(policy, payment) {
			if includesPort(rule.Ports, port, provider) && s.mayInclude(rule.To, provider) {
				policies = append(policies, policy.Name)
			}
		}
	}
	if len(policies) != 1 || policies[0] != cutPolicy {
		s.fault("payment reaches the provider by %v, but scripts/chaos deletes only %s", policies, cutPolicy)
	}
}

func (s *System) egressRules(policy *networkingv1.NetworkPolicy, from *appsv1.Deployment) []networkingv1.NetworkPolicyEgressRule {
	for _, deployment := range s.selected(&policy.Spec.PodSelector) {
		if deployment == from {
			return policy.Spec.Egress
		}
	}
	return nil
}

// mayInclude reports whether peers may include the pods of a deployment. Addresses and namespaces count as yes.
func (s *System) mayInclude(peers []networkingv1.NetworkPolicyPeer, to *appsv1.Deployment) bool {
	for _, peer := range peers {
		if peer.PodSelector == nil || peer.NamespaceSelector != nil {
			return true
		}
		for _, deployment := range s.selected(peer.PodSelector) {
			if deployment == to {
				return true
			}
		}
	}
	return len(peers) == 0
}

// includesPort reports whether the ports of a rule include a number. Port names are those of the pods of `to`.
func includesPort(ports []networkingv1.NetworkPolicyPort, number int, to *appsv1.Deployment) bool {
	for _, port := range ports {
		switch {
		case port.Port == nil:
			return true
		case port.Port.Type == intstr.String:
			if to != nil && hasPort(to, port.Port.StrVal) {
				return true
			}
		case port.Port.IntValue() == number:
			return true
		case port.EndPort != nil && port.Port.IntValue() <= number && number <= int(*port.EndPort):
			return true
		}
	}
	return false
}
