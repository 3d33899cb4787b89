package options

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podstead/podstead/cmd/podstead/kubeletconfig"
)

// Policy is what the node lets pods do, and what it does for those that do not
// say.
type Policy struct {
	// SeccompDefault gives containers that name no profile the runtime's.
	SeccompDefault bool
	// UnsafeSysctls are kernel parameters beyond the safe ones that pods may
	// set; a name may end in *.
	UnsafeSysctls []string
	// NodeLabels are the node's own, beside the well-known ones.
	NodeLabels map[string]string
	// RuntimeClasses are the runtime's handlers by the names of classes that no
	// manifest declares.
	RuntimeClasses map[string]string
	// MaxPods is how many pods may run here at once; PodsPerCore bounds them
	// further by the node's CPUs, 0 does not.
	MaxPods, PodsPerCore int
}

// defaultMaxPods is the kubelet's.
const defaultMaxPods = 110

// Pods is how many pods may run at once on so many CPUs.
func (p *Policy) Pods(cpus int) int {
	if p.PodsPerCore > 0 {
		return min(p.MaxPods, p.PodsPerCore*cpus)
	}
	return p.MaxPods
}

func (p *Policy) addFlags(f *pflag.FlagSet) {
	f.StringToStringVar(&p.NodeLabels, "node-labels", nil, "`labels` of this node for nodeSelector and nodeAffinity, such as disk=ssd,zone=a")
	f.StringToStringVar(&p.RuntimeClasses, "runtime-classes", nil, "handlers of the runtime by the `names` of runtime classes, such as sandboxed=kata, for those without a manifest")
	f.IntVar(&p.MaxPods, "max-pods", defaultMaxPods, "`number` of pods that may run here at once")
	f.IntVar(&p.PodsPerCore, "pods-per-core", 0, "`number` of pods that may run at once for each CPU, if that is less than --max-pods; 0 for any")
	f.BoolVar(&p.SeccompDefault, "seccomp-default", false, "give containers without a seccomp profile the runtime's instead of none")
	f.StringSliceVar(&p.UnsafeSysctls, "allowed-unsafe-sysctls", nil, "kernel `parameters` that pods may set beside the safe ones, such as net.core.somaxconn or kernel.msg*")
}

// merge takes from the file what no flag says.
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
			errs = append(errs, fmt.Errorf("--allowed-unsafe-sysctls: %q: must be one that is a pod's own, below net. or fs.mqueue., kernel.sem, or beginning with kernel.shm or kernel.msg; "+
				"any other would change the host; a * may stand at the end", pattern))
		}
	}
	if p.MaxPods < 0 {
		errs = append(errs, fmt.Errorf("--max-pods=%d: must be a number of pods", p.MaxPods))
	}
	if p.PodsPerCore < 0 {
		errs = append(errs, fmt.Errorf("--pods-per-core=%d: must be a number of pods, or 0 for any", p.PodsPerCore))
	}
	for _, err := range metav1validation.ValidateLabels(p.NodeLabels, field.NewPath("--node-labels")) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// namespaced tells a kernel parameter of which each pod has its own.
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
