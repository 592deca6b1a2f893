package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
)

// Sources is what the manifests have to agree with and the services' code says.
type Sources struct {
	repository   string
	drainSeconds int64
	// The variable by which the lab's tool is told of the system.
	systemVariable string
}

var (
	drainTimeout = regexp.MustCompile(`DRAIN_TIMEOUT: Duration = Duration::from_secs\((\d+)\)`)
	systemEnv    = regexp.MustCompile(`\bENV: &str = "([A-Z0-9_]+)"`)
	envName      = regexp.MustCompile(`\benv = "([A-Z0-9_]+)"`)
	kitSettings  = regexp.MustCompile(`\bservice_kit::(\w+)::Settings\b`)
)

func readSources(repository string) (Sources, error) {
	drain, err := constant(repository, "shared/service-kit/src/workers.rs", drainTimeout)
	if err != nil {
		return Sources{}, err
	}
	system, err := constant(repository, "endpoints/src/directory.rs", systemEnv)
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
		return "", fmt.Errorf("%s: %s is not where it was", file, pattern)
	}
	return string(found[1]), nil
}

// settings returns the environment variables that a service knows: its own, and those of the settings
// that it takes in from shared crates. The lab knows those of its commands that run in a cluster.
func (s Sources) settings(service string) (map[string]bool, error) {
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
	for _, kit := range kitSettings.FindAllSubmatch(text, -1) {
		paths = append(paths, filepath.Join(s.repository, "shared/service-kit/src", string(kit[1])+".rs"))
	}
	known, err := namesIn(paths)
	if err == nil {
		// Read by the logs' filter and by crash points, not by the settings.
		known["RUST_LOG"], known["CRASH_POINTS"] = true, true
	}
	return known, err
}

// namesIn returns the variables that settings in these files are read from.
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
