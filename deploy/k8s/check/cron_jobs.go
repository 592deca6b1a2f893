package main

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The tool that places an order on a schedule.
const canaryName = "canary"

// addCronJob checks how a job runs, and keeps its pods: the rules for the pods of a tool hold for them too.
func (s *System) addCronJob(job *batchv1.CronJob) {
	spec := job.Spec.JobTemplate.Spec
	if job.Spec.ConcurrencyPolicy != batchv1.ForbidConcurrent {
		s.fault("CronJob %s: a run that hangs would not stop the next one", job.Name)
	}
	if spec.BackoffLimit == nil || *spec.BackoffLimit != 0 {
		s.fault("CronJob %s: a failed run would be repeated, with another order", job.Name)
	}
	if spec.ActiveDeadlineSeconds == nil {
		s.fault("CronJob %s: a run has no deadline", job.Name)
	}
	pods := &appsv1.Deployment{ObjectMeta: *job.ObjectMeta.DeepCopy()}
	pods.Spec.Selector = &metav1.LabelSelector{MatchLabels: spec.Template.Labels}
	pods.Spec.Template = spec.Template
	s.deployments = append(s.deployments, pods)
}
