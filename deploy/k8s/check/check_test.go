package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const repository = "../../.."

// breakage is one error in a manifest, and part of the message that the check must report.
type breakage struct {
	file, old, new, overlay, problem string
}

var breakages = []breakage{
	{"base/order.yaml", "maxUnavailable: 1", "maxUnavailabel: 1", "base", `unknown field "spec.maxUnavailabel"`},
	{"base/order.yaml", "maxUnavailable: 1", "maxUnavailable: one", "base", "spec.maxUnavailable"},
	{"base/order.yaml", "minReplicas: 2", "minReplicas: 20", "base", "must be greater than or equal to `minReplicas`"},
	{"base/order.yaml", "name: http, containerPort", "name: HTTP, containerPort", "base", "ports[0].name"},
	{"base/order.yaml", "apiVersion: policy/v1", "apiVersion: policy/v1beta1", "base", "PodDisruptionBudget order"},
	{"base/network.yaml", "operator: In", "operator: Among", "base", "not a valid selector operator"},
	{"base/order.yaml", "  selector:\n    app.kubernetes.io/name: order", "  selector:\n    app.kubernetes.io/name: orders", "base", "Service order: selects the pods of 0"},
	{"base/payment.yaml", "targetPort: http", "targetPort: web", "base", "Service payment: its pods have no port web"},
	{"base/fulfilment.yaml", "kind: PodDisruptionBudget\nmetadata:\n  name: fulfilment\nspec:\n  maxUnavailable: 1", "kind: PodDisruptionBudget\nmetadata:\n  name: fulfilment\nspec:\n  maxUnavailable: 1\n  selector: {matchLabels: {app.kubernetes.io/name: receipt}}\n---\napiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata:\n  name: second\nspec:", "base", "Deployment receipt: has 2 disruption budgets"},
	{"base/receipt.yaml", "kind: Deployment, name: receipt", "kind: Deployment, name: receipts", "base", "HorizontalPodAutoscaler receipt: there is no Deployment receipts"},
	{"base/receipt.yaml", "kind: Deployment, name: receipt", "kind: Deployment, name: order", "base", "Deployment receipt: consumes messages, but has no autoscaler"},
	{"base/payment.yaml", "  # No replicas: the autoscaler sets them.", "  replicas: 3", "base", "Deployment payment: sets replicas"},
	{"base/scaling.yaml", "name: cpu\n", "name: cpuu\n", "base", "must use CPU and lag"},
	{"base/scaling.yaml", "name: inbox_lag_messages", "name: inbox_lag", "base", "must use CPU and lag"},
	{"base/payment.yaml", "serviceAccountName: payment", "serviceAccountName: charger", "base", "there is no ServiceAccount \"charger\""},
	{"base/payment.yaml", "automountServiceAccountToken: false", "automountServiceAccountToken: true", "base", "ServiceAccount payment: mounts a token"},
	{"base/config/payment.env", "PSP_URL", "PSP_ULR", "base", "service has no setting PSP_ULR"},
	{"base/config/chargeonce.env", "LOG_FORMAT", "PSP_URL", "base", "Deployment order: service has no setting PSP_URL"},
	{"base/config/order.env", "8081", "8082", "base", "Deployment order: LISTEN"},
	{"base/config/order.env", "0.0.0.0", "127.0.0.1", "base", "Deployment order: LISTEN"},
	{"base/config/order.env", "9081", "9082", "base", "Deployment order: OPERATOR_LISTEN"},
	{"base/secrets/order.example.env", "OPERATOR_TOKENS=", "", "base", "Deployment order: has no OPERATOR_TOKENS from a secret"},
	{"base/config/order.env", "OPERATOR_LISTEN", "OPERATORS_LISTEN", "base", "service has no setting OPERATORS_LISTEN"},
	{"base/order.yaml", "port: 8081, targetPort: http", "port: 8081, targetPort: operators", "base", "Service order: the operators' port needs a Service of its own"},
	{"base/order.yaml", "    - {name: http, port: 8081, targetPort: http}", "    - {name: http, port: 8081, targetPort: http}\n    - {name: operators, port: 9081, targetPort: operators}", "base", "Service order: the operators' port needs a Service of its own"},
	{"base/payment.yaml", "    - {name: operators, port: 9082, targetPort: operators}", "    - {name: operators, port: 9082, targetPort: operators}\n  type: NodePort", "base", "Service payment-operators: operators' ports must not leave the cluster"},
	{"overlays/production/ingress.yaml", "{name: order, port: {name: http}}", "{name: order-operators, port: {name: operators}}", "overlays/production", "forwards the operators' port of order-operators"},
	{"overlays/lab/lab.example.json", "\"http://psp-operators:9085\"", "", "overlays/lab", "the lab has no operator URL of psp"},
	{"overlays/lab/lab.example.json", "http://order-operators:9081", "http://order:8081", "overlays/lab", "has the operator URL http://order:8081 for order"},
	{"overlays/lab/lab.example.json", "demo-operator-token", "another-token", "overlays/lab", "the lab's operator token is not one of order"},
	{"base/fulfilment.yaml", "configMapRef: {name: fulfilment}", "configMapRef: {name: stock}", "base", "there is no ConfigMap/stock"},
	{"base/fulfilment.yaml", "key: DATABASE_URL", "key: DATABASE", "base", "there is no DATABASE in Secret/fulfilment"},
	{"base/fulfilment.yaml", "secretRef: {name: fulfilment}", "secretRef: {name: order}", "base", "goes to both"},
	{"base/fulfilment.yaml", "secretRef: {name: fulfilment}", "configMapRef: {name: chargeonce}", "base", "no DATABASE_URL from a secret"},
	{"base/fulfilment.yaml", "command: [/bin/fulfilment]", "command: [/bin/order]", "base", "runs [/bin/order]"},
	{"overlays/lab/kustomization.yaml", "  - name: psp\n    literals", "  - name: unused\n    literals: [A=B]\n  - name: psp\n    literals", "overlays/lab", "is not used"},
	{"overlays/lab/mail.yaml", "          ports:\n", "          env: [{name: A, value: B}]\n          ports:\n", "overlays/lab", "the settings of this tool are not checked; add a rule"},
	{"overlays/lab/lab.yaml", "- name: KAFKA_TOPIC", "- name: KAFKA_TOPICS", "overlays/lab", "lab has no setting KAFKA_TOPICS"},
	{"overlays/lab/lab.yaml", "key: KAFKA_TOPIC}", "key: TOPIC}", "overlays/lab", "there is no TOPIC in ConfigMap/chargeonce"},
	{"overlays/lab/lab.yaml", "- secretRef: {name: lab}", "- configMapRef: {name: receipt}", "overlays/lab", "CHARGEONCE_SYSTEM does not come from a secret"},
	{"overlays/lab/kustomization.yaml", "CHARGEONCE_SYSTEM=", "CHARGEONCE_SYSTEMS=", "overlays/lab", "CHARGEONCE_SYSTEM does not come from a secret"},
	{"overlays/lab/lab.example.json", "8090\"]\n", "8090\"],\n", "overlays/lab", "CHARGEONCE_SYSTEM: invalid character"},
	{"overlays/lab/lab.example.json", "\"psp\": [", "\"provider\": [", "overlays/lab", "the lab has no URL of psp"},
	{"overlays/lab/lab.example.json", "\"psp\": [", "\"provider\": [", "overlays/lab", "URL of provider, which is not a service here"},
	{"overlays/lab/lab.example.json", "[\"http://receipt:8084\"]", "[]", "overlays/lab", "the lab has no URL of receipt"},
	{"overlays/lab/lab.example.json", "http://order:8081", "http://order:8082", "overlays/lab", "has the URL http://order:8082 for order"},
	{"overlays/lab/lab.example.json", "http://order:8081", "http://payment:8082", "overlays/lab", "has the URL http://payment:8082 for order"},
	{"overlays/lab/lab.example.json", "\"fulfilment\": \"", "\"stock\": \"", "overlays/lab", "the lab has no database of fulfilment"},
	{"overlays/lab/lab.example.json", "5432/receipt", "5432/order", "overlays/lab", "database /order for receipt, which uses another"},
	{"overlays/lab/lab.example.json", "postgres://lab:not-a-password@postgres.invalid:5432/psp", "postgres://psp:not-a-password@postgres.invalid:5432/psp", "overlays/lab", "reads the database of psp as its owner"},
	{"overlays/lab/lab.example.json", "kafka.invalid", "kafka.example", "overlays/lab", "the lab's brokers are kafka.example:9092"},
	{"overlays/lab/lab.example.json", "order-events", "events", "overlays/lab", "the lab's topic is events"},
	{"overlays/lab/network.yaml", "        - {protocol: TCP, port: 5432}\n", "", "overlays/lab", "Deployment lab: no NetworkPolicy allows it to connect to port 5432"},
	{"overlays/lab/network.yaml", "        - {protocol: TCP, port: 9092}\n", "", "overlays/lab", "Deployment lab: no NetworkPolicy allows it to connect to port 9092"},
	{"overlays/lab/network.yaml", "  name: payment-to-psp", "  name: to-psp", "overlays/lab", "payment reaches the provider by [to-psp]"},
	{"base/payment.yaml", "- {protocol: TCP, port: 80}", "- {protocol: TCP, port: 8000, endPort: 8999}", "overlays/lab", "payment reaches the provider by [payment payment-to-psp]"},
	{"overlays/lab/crash-points.yaml", "shareProcessNamespace: true", "shareProcessNamespace: false", "overlays/lab", "Deployment order: shareProcessNamespace"},
	{"components/service/pod.yaml", "      enableServiceLinks: false", "      enableServiceLinks: false\n      shareProcessNamespace: true", "base", "Deployment order: shareProcessNamespace"},
	{"components/service/pod.yaml", "terminationGracePeriodSeconds: 30", "terminationGracePeriodSeconds: 15", "base", "preStop and drain take 15 s"},
	{"components/service/pod.yaml", "            preStop:\n              sleep:\n                seconds: 5", "            {}", "base", "has no preStop pause"},
	{"components/service/pod.yaml", "livenessProbe:\n            httpGet: {path: /healthz", "livenessProbe:\n            httpGet: {path: /readyz", "base", "liveness probe must request /healthz"},
	{"components/service/pod.yaml", "maxUnavailable: 0", "maxUnavailable: 1", "base", "a roll-out must not"},
	{"components/service/pod.yaml", "runAsNonRoot: true", "runAsNonRoot: false", "base", "not restricted: runAsNonRoot"},
	{"components/service/pod.yaml", "drop: [ALL]", "drop: [NET_RAW]", "base", "unrestricted capabilities"},
	{"components/service/pod.yaml", "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "base", "has a writable root"},
	{"components/service/pod.yaml", "runAsUser: 10001", "runAsUser: 1000", "base", "does not run as user 10001"},
	{"components/service/pod.yaml", "enableServiceLinks: false", "enableServiceLinks: true", "base", "enableServiceLinks"},
	{"components/service/pod.yaml", "automountServiceAccountToken: false", "automountServiceAccountToken: true", "base", "mounts an API token"},
	{"components/service/pod.yaml", ", memory: 128Mi", "", "base", "no memory limit"},
	{"components/service/pod.yaml", "app.kubernetes.io/part-of: chargeonce", "app.kubernetes.io/part-of: charge", "base", "a spread constraint matches no pods"},
	{"overlays/lab/canary.yaml", "concurrencyPolicy: Forbid", "concurrencyPolicy: Allow", "overlays/lab", "CronJob canary: a run that hangs"},
	{"overlays/lab/canary.yaml", "backoffLimit: 0", "backoffLimit: 2", "overlays/lab", "CronJob canary: a failed run would be repeated"},
	{"overlays/lab/canary.yaml", "      activeDeadlineSeconds: 180\n", "", "overlays/lab", "CronJob canary: a run has no deadline"},
	{"overlays/lab/canary.yaml", "restartPolicy: Never", "restartPolicy: Always", "overlays/lab", "restartPolicy"},
	{"overlays/lab/canary.yaml", "*/10 * * * *", "often", "overlays/lab", "schedule"},
	{"overlays/lab/canary.yaml", "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "overlays/lab", "container canary has a writable root"},
	{"overlays/lab/canary.example.env", "CANARY_API_KEY", "CANARY_KEY", "overlays/lab", "canary has no setting CANARY_KEY"},
	{"base/network.yaml", "policyTypes: [Ingress, Egress]", "policyTypes: [Ingress]", "base", "no NetworkPolicy denies all traffic"},
	{"base/network.yaml", "port: http}", "port: metrics}", "base", "has no port metrics"},
	{"base/payment.yaml", "    - ports:\n        - {protocol: TCP, port: 80}", "    - {}", "base", "connect to every port"},
	{"overlays/lab/network.yaml", "app.kubernetes.io/name: mail", "app.kubernetes.io/name: mails", "overlays/lab", "selects no pods"},
	{"base/namespace.yaml", "enforce: restricted", "enforce: baseline", "base", "does not enforce restricted"},
	{"overlays/production/ingress.yaml", "path: /orders", "path: /", "overlays/production", "may forward /admin"},
	{"overlays/production/ingress.yaml", "{name: order, port", "{name: orders, port", "overlays/production", "a backend does not exist"},
	{"overlays/production/ingress.yaml", "pathType: Exact", "pathType: exact", "overlays/production", "pathType"},
	{"overlays/production/kustomization.yaml", "newTag", "newTags", "overlays/production", "newTags"},
}

func TestEveryBreakageIsReported(t *testing.T) {
	sources, err := readSources(repository)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range breakages {
		t.Run(b.problem, func(t *testing.T) {
			directory := t.TempDir()
			for _, part := range []string{"base", "components", "overlays"} {
				copied := filepath.Join(directory, part)
				if err := os.CopyFS(copied, os.DirFS(filepath.Join("..", part))); err != nil {
					t.Fatal(err)
				}
			}
			spoil(t, filepath.Join(directory, b.file), b.old, b.new)
			_, problems := check(filepath.Join(directory, b.overlay), sources)
			if !strings.Contains(strings.Join(problems, "\n"), b.problem) {
				t.Errorf("%q instead of %q in %s was not reported; reported: %q", b.new, b.old, b.file, problems)
			}
		})
	}
}

func TestManifestsHaveNoProblems(t *testing.T) {
	sources, err := readSources(repository)
	if err != nil {
		t.Fatal(err)
	}
	for _, overlay := range []string{"../base", "../overlays/lab", "../overlays/production"} {
		if _, problems := check(overlay, sources); len(problems) > 0 {
			t.Errorf("%s: %q", overlay, problems)
		}
	}
}

// spoil fails if there is nothing to replace, because the breakage would test nothing.
func spoil(t *testing.T, path, old, new string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	spoilt := strings.ReplaceAll(string(text), old, new)
	if spoilt == string(text) {
		t.Fatalf("%s does not contain %q", path, old)
	}
	if err := os.WriteFile(path, []byte(spoilt), 0o600); err != nil {
		t.Fatal(err)
	}
}
