package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
)

// Sources holds facts from the services' code that the manifests must match.
type Sources struct {
	repository   string
	drainSeconds int64
	// The variable that describes the system to the lab's tool.
	systemVariable string
}

var (
	drainTimeout = regexp.MustCompile(`DRAIN_TIMEOUT: Duration = Duration::from_secs\((\d+)\)`)
	systemEnv    = regexp.MustCompile(`\bSYSTEM_VAR: &str = "([A-Z0-9_]+)"`)
	envName      = regexp.MustCompile(`\benv = "([A-Z0-9_]+)"`)
	kitSettings  = regexp.MustCompile(`\b(database|kafka|retention)::Settings\b`)
	application  = regexp.MustCompile(`\bapplication::Settings\b`)
	operators    = regexp.MustCompile(`\boperators::Settings\b`)
)

func readSources(repository string) (Sources, error) {
	drain, err := constant(repository, "shared/service-kit/src/workers.rs", drainTimeout)
	if err != nil {
		return Sources{}, err
	}
	system, err := constant(repository, "endpoints/src/discovery.rs", systemEnv)
	if err != nil {
		return Sources{}, err
	}
	seconds, err := strconv.ParseInt(drain, 10, 64)
	return Sources{repository, seconds, system}, err
}

func constant(repository, file string, pattern *regexp.Regexp) (string, error) {
	text, err := os.ReadFile(filepath.Join(repository, file))
	if err != nil {
		return "", err
	}
	found := pattern.FindSubmatch(text)
	if found == nil {
		return "", fmt.Errorf("%s: %s was not found; update sources.go", file, pattern)
	}
	return string(found[1]), nil
}

// settings returns the environment variables of a service: its own and those of the shared settings that it
// includes. For the lab, those of its commands that run in a cluster.
func (s Sources) settings(service string) (map[string]bool, error) {
	if service == canaryName {
		return namesIn([]string{filepath.Join(s.repository, "chargeonce/src/canary.rs")})
	}
	if service == labName {
		known, err := namesIn([]string{filepath.Join(s.repository, "chargeonce/src/create_topic.rs")})
		if err == nil {
			known[s.systemVariable] = true
		}
		return known, err
	}
	own := filepath.Join(s.repository, "services", service, "src/config.rs")
	text, err := os.ReadFile(own)
	if err != nil {
		return nil, err
	}
	paths := []string{own, filepath.Join(s.repository, "shared/telemetry/src/lib.rs")}
	if application.Match(text) {
		shared := filepath.Join(s.repository, "shared/application/src/settings.rs")
		if text, err = os.ReadFile(shared); err != nil {
			return nil, err
		}
		paths = append(paths, shared)
	}
	for _, kit := range kitSettings.FindAllSubmatch(text, -1) {
		paths = append(paths, filepath.Join(s.repository, "shared/service-kit/src", string(kit[1])+".rs"))
	}
	if operators.Match(text) {
		paths = append(paths, filepath.Join(s.repository, "shared/operators/src/settings.rs"))
	}
	known, err := namesIn(paths)
	if err == nil {
		// Read by the log filter and by crash points, not by the settings.
		known["RUST_LOG"], known["CRASH_POINTS"] = true, true
	}
	return known, err
}

// namesIn returns the environment variables of the settings in these files.
func namesIn(paths []string) (map[string]bool, error) {
	known := map[string]bool{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		names := envName.FindAllSubmatch(text, -1)
		if len(names) == 0 {
			return nil, fmt.Errorf("%s: no settings found", path)
		}
		for _, name := range names {
			known[string(name[1])] = true
		}
	}
	return known, nil
}
