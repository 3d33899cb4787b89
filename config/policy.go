package config

import (
	"math"
	"strings"

	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
)

// Policy are the settings of what pods may do, and of defaults for pods.
type Policy struct {
	// SeccompDefault is the runtime's default profile for containers without one.
	SeccompDefault bool
	// UnsafeSysctls are the allowed unsafe sysctls; a name can end in *.
	UnsafeSysctls []string
	// NodeLabels are labels of the node in addition to the well-known ones.
	NodeLabels map[string]string
	// RuntimeClasses are handlers of the runtime by the names of runtime classes, for
	// classes that no manifest declares.
	RuntimeClasses map[string]string
	// MaxPods is the maximum number of running pods. PodsPerCore is the maximum per
	// CPU; 0 for no limit.
	MaxPods, PodsPerCore int
}

// defaultMaxPods is the kubelet's default.
const defaultMaxPods = 110

// Pods returns the maximum number of running pods for a number of CPUs.
func (p *Policy) Pods(cpus int) int {
	if p.PodsPerCore > 0 {
		return min(p.MaxPods, p.PodsPerCore*cpus)
	}
	return p.MaxPods
}

func (p *Policy) settings() []setting {
	return []setting{
		{
			flag: "node-labels", own: "nodeLabels", value: pairs(&p.NodeLabels, "{disk: ssd}"),
			check: func(s *setting) {
				for _, err := range metav1validation.ValidateLabels(p.NodeLabels, nil) {
					s.fail(": %s", err.ErrorBody())
				}
			},
			help: "`labels` of the node for nodeSelector and nodeAffinity, such as disk=ssd,zone=a",
		},
		{flag: "runtime-classes", own: "runtimeClasses", value: pairs(&p.RuntimeClasses, "{sandboxed: kata}"),
			help: "runtime handlers by runtime class `name`, such as sandboxed=kata, for classes without a manifest"},
		{flag: "max-pods", field: "maxPods", value: integer(&p.MaxPods, defaultMaxPods, 0, math.MaxInt32),
			check: atLeast(&p.MaxPods, 0, "must be a number of pods"),
			help:  "maximum `number` of pods that can run"},
		{flag: "pods-per-core", field: "podsPerCore", value: integer(&p.PodsPerCore, 0, 0, math.MaxInt32),
			check: atLeast(&p.PodsPerCore, 0, "must be a number of pods, or 0 for no limit"),
			help:  "maximum `number` of pods per CPU, limited by --max-pods; 0 for no limit"},
		{flag: "seccomp-default", field: "seccompDefault", value: boolean(&p.SeccompDefault, false),
			help: "use the runtime's default seccomp profile for containers without a profile"},
		{flag: "allowed-unsafe-sysctls", field: "allowedUnsafeSysctls", value: texts(&p.UnsafeSysctls), check: p.checkSysctls,
			help: "unsafe `sysctls` that pods can set, such as net.core.somaxconn or kernel.msg*"},
	}
}

func (p *Policy) checkSysctls(s *setting) {
	for i, pattern := range p.UnsafeSysctls {
		name := strings.ReplaceAll(strings.TrimSpace(pattern), "/", ".")
		p.UnsafeSysctls[i] = name
		if !namespaced(strings.TrimSuffix(name, "*")) || strings.Contains(strings.TrimSuffix(name, "*"), "*") {
			s.fail(": %q: must be a namespaced sysctl: net.*, fs.mqueue.*, kernel.sem, kernel.shm* or kernel.msg*; any other "+
				"would change the host; only the last character can be *", pattern)
		}
	}
}

// namespaced reports whether each pod has its own value of a sysctl.
func namespaced(name string) bool {
	if name == "kernel.sem" {
		return true
	}
	for _, prefix := range []string{"net.", "fs.mqueue.", "kernel.shm", "kernel.msg"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
