package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
)

// isDirectory reports whether a path is a directory.
func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// checkDependencies finds pods that would wait forever for the pods that they depend
// on: cycles, once each, and, if the given files are complete, unknown names.
func (v *validator) checkDependencies(complete bool) {
	dependsOn := map[string][]string{}
	for i, pod := range v.pods {
		// A faulty list was reported, and its pod is not among these.
		dependsOn[v.names[i]], _ = podinfo.DependsOn(pod)
	}
	reported := map[string]bool{}
	for i, pod := range v.pods {
		name := v.names[i]
		value := pod.Annotations[podinfo.AnnotationDependsOn]
		fault := manifest.Fault{Unit: v.owners[name], Object: "Pod " + name,
			Path: "metadata.annotations[" + podinfo.AnnotationDependsOn + "]"}
		way := podinfo.DependencyCycle(name, func(name string) []string { return dependsOn[name] })
		if way != nil && !slices.ContainsFunc(way, func(name string) bool { return reported[name] }) {
			for _, name := range way {
				reported[name] = true
			}
			fault.Problem, fault.Remedy = fmt.Sprintf("%q makes the pod depend on itself through %s", value,
				strings.Join(way, " ▸ ")), "remove one of these dependencies"
			v.faults = append(v.faults, fault)
		}
		for _, dependency := range dependsOn[name] {
			if _, known := v.owners[dependency]; !known && complete {
				fault.Problem, fault.Remedy, fault.Warning = fmt.Sprintf("%q names pod %s, which no given manifest declares", value,
					dependency), "correct the name, or add the manifest", true
				v.faults = append(v.faults, fault)
			}
		}
	}
}
