// Checks the Kubernetes manifests with the API server's validation and with rules of this project: its
// settings, its drain time, and the allowed connections. Needs no cluster.
//
//	k8s-check REPOSITORY OVERLAY…
package main

import (
	"fmt"
	"os"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: k8s-check REPOSITORY OVERLAY…")
		os.Exit(2)
	}
	sources, err := readSources(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	failed := false
	for _, overlay := range os.Args[2:] {
		objects, problems := check(overlay, sources)
		for _, problem := range problems {
			fmt.Fprintf(os.Stderr, "%s: %s\n", overlay, problem)
		}
		failed = failed || len(problems) > 0
		fmt.Printf("%s: %d objects, %d problems\n", overlay, objects, len(problems))
	}
	if failed {
		os.Exit(1)
	}
}

// check builds one overlay and returns the number of its objects and their problems.
func check(overlay string, sources Sources) (int, []string) {
	options := krusty.MakeDefaultOptions()
	built, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), overlay)
	if err != nil {
		return 0, []string{err.Error()}
	}
	var system System
	var problems []string
	for _, resource := range built.Resources() {
		yaml, err := resource.AsYAML()
		if err != nil {
			return 0, []string{err.Error()}
		}
		object, err := decode(yaml)
		if err == nil {
			err = system.add(object)
		}
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s %s: %v", resource.GetKind(), resource.GetName(), err))
		}
	}
	// The rules would report the same objects as missing.
	if len(problems) == 0 {
		problems = system.problems(sources)
	}
	return built.Size(), problems
}
