package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The services' gauge of consumer lag.
const lagMetric = "inbox_lag_messages"

// checkSelectors checks that every selector finds pods, and that every service has its objects.
func (s *System) checkSelectors() {
	for _, service := range s.services {
		found := s.selected(&metav1.LabelSelector{MatchLabels: service.Spec.Selector})
		if len(found) != 1 {
			s.fault("Service %s: selects the pods of %d deployments", service.Name, len(found))
			continue
		}
		for _, port := range service.Spec.Ports {
			if port.TargetPort.Type == intstr.String && !hasPort(found[0], port.TargetPort.StrVal) {
				s.fault("Service %s: its pods have no port %s", service.Name, port.TargetPort.StrVal)
			}
		}
	}
	budgets := map[string]int{}
	for _, budget := range s.budgets {
		found := s.selected(budget.Spec.Selector)
		if len(found) != 1 {
			s.fault("PodDisruptionBudget %s: selects the pods of %d deployments", budget.Name, len(found))
		}
		for _, deployment := range found {
			budgets[deployment.Name]++
		}
	}
	for _, deployment := range s.deployments {
		if !isService(deployment) {
			continue
		}
		// With two budgets no pod can be evicted.
		if count := budgets[deployment.Name]; count != 1 {
			s.fault("Deployment %s: has %d disruption budgets", deployment.Name, count)
		}
		s.checkAccount(deployment.Name, deployment.Spec.Template.Spec.ServiceAccountName)
	}
}

func (s *System) checkAccount(deployment, name string) {
	for _, account := range s.accounts {
		if account.Name == name {
			if account.AutomountServiceAccountToken == nil || *account.AutomountServiceAccountToken {
				s.fault("ServiceAccount %s: mounts a token", name)
			}
			return
		}
	}
	s.fault("Deployment %s: there is no ServiceAccount %q", deployment, name)
}

// checkScaling checks that every consumer has exactly one autoscaler, and that each autoscaler has a target.
func (s *System) checkScaling(sources Sources) {
	scaled := map[string]bool{}
	for _, scaler := range s.scalers {
		target := scaler.Spec.ScaleTargetRef
		for _, deployment := range s.deployments {
			if target.Kind != "Deployment" || target.Name != deployment.Name {
				continue
			}
			scaled[deployment.Name] = true
			// The API's default is 1. It is set if the manifest has no value.
			if *deployment.Spec.Replicas != 1 {
				s.fault("Deployment %s: sets replicas, but its autoscaler sets them too", deployment.Name)
			}
		}
		if !scaled[target.Name] {
			s.fault("HorizontalPodAutoscaler %s: there is no %s %s", scaler.Name, target.Kind, target.Name)
		}
		watched := map[string]bool{}
		for _, metric := range scaler.Spec.Metrics {
			if metric.Resource != nil {
				watched[string(metric.Resource.Name)] = true
			}
			if metric.Pods != nil {
				watched[metric.Pods.Metric.Name] = true
			}
		}
		if !watched["cpu"] || !watched[lagMetric] {
			s.fault("HorizontalPodAutoscaler %s: must use CPU and lag", scaler.Name)
		}
	}
	for _, deployment := range s.deployments {
		if !isService(deployment) || scaled[deployment.Name] {
			continue
		}
		if known, err := sources.settings(deployment.Name); err != nil || known["KAFKA_GROUP"] {
			s.fault("Deployment %s: consumes messages, but has no autoscaler", deployment.Name)
		}
	}
}
