package main

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// The only user of the images.
const imageUser = 10001

// checkPod checks how the pods of a deployment run, stop and are probed.
func (s *System) checkPod(deployment *appsv1.Deployment, sources Sources) {
	name, template := deployment.Name, deployment.Spec.Template
	pod := template.Spec
	s.checkSecurity(deployment)
	if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
		s.fault("Deployment %s: mounts an API token, but no pod uses the Kubernetes API", name)
	}
	if pod.EnableServiceLinks == nil || *pod.EnableServiceLinks {
		s.fault("Deployment %s: enableServiceLinks must be false: its variables could set settings", name)
	}
	for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
		if container.Resources.Requests.Cpu().IsZero() || container.Resources.Limits.Memory().IsZero() {
			s.fault("Deployment %s: container %s has no CPU request or no memory limit", name, container.Name)
		}
	}
	if !isService(deployment) {
		return
	}
	rolling := deployment.Spec.Strategy.RollingUpdate
	if rolling == nil || rolling.MaxUnavailable.String() != "0" {
		s.fault("Deployment %s: a roll-out must not remove a replica before another is ready", name)
	}
	if len(pod.TopologySpreadConstraints) == 0 {
		s.fault("Deployment %s: its pods may all be on one node", name)
	}
	for _, spread := range pod.TopologySpreadConstraints {
		if len(s.selected(spread.LabelSelector)) == 0 {
			s.fault("Deployment %s: a spread constraint matches no pods", name)
		}
	}
	for _, container := range pod.Containers {
		var pause int64
		if hooks := container.Lifecycle; hooks != nil && hooks.PreStop != nil && hooks.PreStop.Sleep != nil {
			pause = hooks.PreStop.Sleep.Seconds
		} else {
			s.fault("Deployment %s: has no preStop pause: requests would arrive after the port is closed", name)
		}
		if grace := *pod.TerminationGracePeriodSeconds; grace <= pause+sources.drainSeconds {
			s.fault("Deployment %s: is killed %d s after SIGTERM, but preStop and drain take %d s",
				name, grace, pause+sources.drainSeconds)
		}
		s.checkProbe(name, "startup", container.StartupProbe, "/healthz")
		s.checkProbe(name, "liveness", container.LivenessProbe, "/healthz")
		s.checkProbe(name, "readiness", container.ReadinessProbe, "/readyz")
	}
}

// checkProbe checks the path of a probe. Liveness must never depend on the database.
func (s *System) checkProbe(deployment, kind string, probe *corev1.Probe, path string) {
	if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != path || probe.HTTPGet.Port.String() != "http" {
		s.fault("Deployment %s: the %s probe must request %s on port http", deployment, kind, path)
	}
}

// checkSecurity uses the evaluator of the API server's admission, at the namespace's level.
func (s *System) checkSecurity(deployment *appsv1.Deployment) {
	name, template := deployment.Name, deployment.Spec.Template
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks())
	if err != nil {
		s.fault("%v", err)
		return
	}
	restricted := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	for _, result := range evaluator.EvaluatePod(restricted, &template.ObjectMeta, &template.Spec) {
		if !result.Allowed {
			s.fault("Deployment %s: not restricted: %s: %s", name, result.ForbiddenReason, result.ForbiddenDetail)
		}
	}
	if user := template.Spec.SecurityContext.RunAsUser; user == nil || *user != imageUser {
		s.fault("Deployment %s: does not run as user %d", name, imageUser)
	}
	for _, container := range slices.Concat(template.Spec.InitContainers, template.Spec.Containers) {
		security := container.SecurityContext
		if security == nil || security.ReadOnlyRootFilesystem == nil || !*security.ReadOnlyRootFilesystem {
			s.fault("Deployment %s: container %s has a writable root file system", name, container.Name)
		}
	}
}
