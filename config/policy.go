package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podstead/podstead/config/kubeletconfig"
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

func (p *Policy) addFlags(f *pflag.FlagSet) {
	f.StringToStringVar(&p.NodeLabels, "node-labels", nil, "`labels` of the node for nodeSelector and nodeAffinity, such as disk=ssd,zone=a")
	f.StringToStringVar(&p.RuntimeClasses, "runtime-classes", nil, "runtime handlers by runtime class `name`, such as sandboxed=kata, for classes without a manifest")
	f.IntVar(&p.MaxPods, "max-pods", defaultMaxPods, "maximum `number` of pods that can run")
	f.IntVar(&p.PodsPerCore, "pods-per-core", 0, "maximum `number` of pods per CPU, limited by --max-pods; 0 for no limit")
	f.BoolVar(&p.SeccompDefault, "seccomp-default", false, "use the runtime's default seccomp profile for containers without a profile")
	f.StringSliceVar(&p.UnsafeSysctls, "allowed-unsafe-sysctls", nil, "unsafe `sysctls` that pods can set, such as net.core.somaxconn or kernel.msg*")
}

// merge applies the settings of the file that no flag sets.
func (p *Policy) merge(c *kubeletconfig.Config, f *pflag.FlagSet) {
	if c.SeccompDefault != nil && !f.Changed("seccomp-default") {
		p.SeccompDefault = *c.SeccompDefault
	}
	if c.MaxPods != nil && !f.Changed("max-pods") {
		p.MaxPods = *c.MaxPods
	}
	if c.PodsPerCore != nil && !f.Changed("pods-per-core") {
		p.PodsPerCore = *c.PodsPerCore
	}
	if c.AllowedUnsafeSysctls != nil && !f.Changed("allowed-unsafe-sysctls") {
		p.UnsafeSysctls = c.AllowedUnsafeSysctls
	}
}

func (p *Policy) check() error {
	var errs []error
	for i, pattern := range p.UnsafeSysctls {
		name := strings.ReplaceAll(strings.TrimSpace(pattern), "/", ".")
		p.UnsafeSysctls[i] = name
		if !namespaced(strings.TrimSuffix(name, "*")) || strings.Contains(strings.TrimSuffix(name, "*"), "*") {
			errs = append(errs, fmt.Errorf("--allowed-unsafe-sysctls: %q: must be a namespaced sysctl: net.*, fs.mqueue.*, kernel.sem, kernel.shm* or kernel.msg*; "+
				"any other would change the host; only the last character can be *", pattern))
		}
	}
	if p.MaxPods < 0 {
		errs = append(errs, fmt.Errorf("--max-pods=%d: must be a number of pods", p.MaxPods))
	}
	if p.PodsPerCore < 0 {
		errs = append(errs, fmt.Errorf("--pods-per-core=%d: must be a number of pods, or 0 for no limit", p.PodsPerCore))
	}
	for _, err := range metav1validation.ValidateLabels(p.NodeLabels, field.NewPath("--node-labels")) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
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
