package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
)

const (
	// The tool with which the chaos scripts observe the system.
	labName = "lab"
	// For Postgres URLs without a port.
	postgresPort = 5432
)

// description is what the lab's tool reads from CHARGEONCE_SYSTEM.
type description struct {
	URLs          map[string][]string `json:"urls"`
	OperatorURLs  map[string][]string `json:"operator_urls"`
	OperatorToken string              `json:"operator_token"`
	DatabaseURLs  map[string]string   `json:"database_urls"`
	Brokers       string              `json:"brokers"`
	Topic         string              `json:"topic"`
}

// checkLab checks that the tool, if present, has the addresses of the whole system and can reach it.
func (s *System) checkLab(sources Sources) {
	lab := s.deployment(labName)
	for _, deployment := range s.deployments {
		shared := deployment.Spec.Template.Spec.ShareProcessNamespace
		if isService(deployment) && (shared != nil && *shared) != (lab != nil) {
			s.fault("Deployment %s: shareProcessNamespace is allowed only in the lab, for its crash points", deployment.Name)
		}
	}
	if lab == nil {
		return
	}
	variables := s.variables(labName, lab.Spec.Template.Spec.Containers[0])
	found := variables[sources.systemVariable]
	if !strings.HasPrefix(found.from, "Secret/") {
		s.fault("Deployment lab: %s does not come from a secret", sources.systemVariable)
		return
	}
	var system description
	if err := json.Unmarshal([]byte(found.value), &system); err != nil {
		s.fault("%s: %v", sources.systemVariable, err)
		return
	}
	s.checkDescription(lab, system)
	s.checkCut()
}

// checkDescription checks that it has exactly the services of this overlay, with their addresses.
func (s *System) checkDescription(lab *appsv1.Deployment, system description) {
	for _, deployment := range s.deployments {
		name := deployment.Name
		if !isService(deployment) {
			continue
		}
		if len(system.URLs[name]) == 0 {
			s.fault("the lab has no URL of %s", name)
		}
		for _, text := range system.URLs[name] {
			if !s.isServiceURL(name, text) {
				s.fault("the lab has the URL %s for %s, which is not its Service", text, name)
			}
		}
		if len(system.OperatorURLs[name]) == 0 {
			s.fault("the lab has no operator URL of %s", name)
		}
		for _, text := range system.OperatorURLs[name] {
			if !s.isServiceURL(name+"-"+operatorPort, text) {
				s.fault("the lab has the operator URL %s for %s, which is not its Service", text, name)
			}
		}
		own := s.variables(name, deployment.Spec.Template.Spec.Containers[0])
		s.checkDatabase(lab, name, system.DatabaseURLs[name], own["DATABASE_URL"].value)
		if brokers := own["KAFKA_BROKERS"].value; brokers != "" && brokers != system.Brokers {
			s.fault("the lab's brokers are %s, those of %s are %s", system.Brokers, name, brokers)
		}
		if !admits(own["OPERATOR_TOKENS"].value, system.OperatorToken) {
			s.fault("the lab's operator token is not one of %s", name)
		}
		if topic := own["KAFKA_TOPIC"].value; topic != "" && topic != system.Topic {
			s.fault("the lab's topic is %s, that of %s is %s", system.Topic, name, topic)
		}
		delete(system.URLs, name)
		delete(system.DatabaseURLs, name)
	}
	for name := range system.URLs {
		s.fault("the lab has a URL of %s, which is not a service here", name)
	}
	for name := range system.DatabaseURLs {
		s.fault("the lab has a database of %s, which is not a service here", name)
	}
	for _, broker := range strings.Split(system.Brokers, ",") {
		_, port, _ := strings.Cut(broker, ":")
		number, _ := strconv.Atoi(port)
		s.checkEgress(lab, number)
	}
}

// admits reports whether the hash of a token is in a list of name:hash.
func admits(tokens, token string) bool {
	hash := fmt.Sprintf("%x", sha256.Sum256([]byte(token)))
	for _, entry := range strings.Split(tokens, ",") {
		if _, known, _ := strings.Cut(entry, ":"); known == hash {
			return true
		}
	}
	return false
}

// isServiceURL reports whether the host is the Service of that name and the port is one of its ports.
func (s *System) isServiceURL(name, text string) bool {
	parsed, err := url.Parse(text)
	if err != nil || parsed.Scheme != "http" || parsed.Hostname() != name || parsed.Path != "" {
		return false
	}
	for _, service := range s.services {
		for _, port := range service.Spec.Ports {
			if service.Name == name && strconv.Itoa(int(port.Port)) == parsed.Port() {
				return true
			}
		}
	}
	return false
}

// checkDatabase checks that the database is that of the service. The role must differ: the lab only reads.
func (s *System) checkDatabase(lab *appsv1.Deployment, name, text, own string) {
	parsed, err := url.Parse(text)
	if err != nil || parsed.Scheme != "postgres" && parsed.Scheme != "postgresql" {
		s.fault("the lab has no database of %s", name)
		return
	}
	number, err := strconv.Atoi(parsed.Port())
	if err != nil {
		number = postgresPort
	}
	s.checkEgress(lab, number)
	theirs, err := url.Parse(own)
	if own == "" || err != nil {
		return
	}
	if parsed.Path != theirs.Path {
		s.fault("the lab has the database %s for %s, which uses another", parsed.Path, name)
	} else if parsed.User.Username() == theirs.User.Username() {
		s.fault("the lab reads the database of %s as its owner", name)
	}
}
