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
}

var (
	drainTimeout = regexp.MustCompile(`DRAIN_TIMEOUT: Duration = Duration::from_secs\((\d+)\)`)
	envName      = regexp.MustCompile(`\benv = "([A-Z0-9_]+)"`)
	kitSettings  = regexp.MustCompile(`\bservice_kit::(\w+)::Settings\b`)
)

func readSources(repository string) (Sources, error) {
	path := filepath.Join(repository, "shared/service-kit/src/workers.rs")
	text, err := os.ReadFile(path)
	if err != nil {
		return Sources{}, err
	}
	found := drainTimeout.FindSubmatch(text)
	if found == nil {
		return Sources{}, fmt.Errorf("%s: DRAIN_TIMEOUT is not where it was", path)
	}
	seconds, err := strconv.ParseInt(string(found[1]), 10, 64)
	return Sources{repository, seconds}, err
}

// settings returns the environment variables that a service knows: its own, and those of the settings
// that it takes in from shared crates.
func (s Sources) settings(service string) (map[string]bool, error) {
	own := filepath.Join(s.repository, "services", service, "src/config.rs")
	text, err := os.ReadFile(own)
	if err != nil {
		return nil, err
	}
	paths := []string{own, filepath.Join(s.repository, "shared/telemetry/src/lib.rs")}
	for _, kit := range kitSettings.FindAllSubmatch(text, -1) {
		paths = append(paths, filepath.Join(s.repository, "shared/service-kit/src", string(kit[1])+".rs"))
	}
	// Read by the logs' filter and by crash points, not by the settings.
	known := map[string]bool{"RUST_LOG": true, "CRASH_POINTS": true}
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
