package config

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// completeOn is complete on a host with these files, with a configuration file of these fields.
func completeOn(t *testing.T, host, fields string, args ...string) (file string, err error) {
	t.Helper()
	file, _, err = noticesOn(t, host, fields, args...)
	return file, err
}

// noticesOn is completeOn with the notices.
func noticesOn(t *testing.T, host, fields string, args ...string) (file string, notices []string, err error) {
	t.Helper()
	file = filepath.Join(files(t, map[string]string{"config.yaml": kubeletHead + fields}), "config.yaml")
	o := Options{host: host}
	f := pflag.NewFlagSet("run", pflag.ContinueOnError)
	o.AddFlags(f)
	if err := f.Parse(append(args, "--config="+file)); err != nil {
		t.Fatal(err)
	}
	notices, err = o.Complete(f)
	return file, notices, err
}

// Settings that this host cannot honour are errors, which name the file, the field and what to do.
func TestSettingsThatTheHostCannotHonour(t *testing.T) {
	const (
		noSwap = "Filename\tType\tSize\tUsed\tPriority\n"
		v1     = "30 20 0:25 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
		v2     = "30 20 0:25 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
	)
	old := files(t, map[string]string{"proc/swaps": noSwap + "/dev/vda2 partition 1 0 -2\n", "proc/self/mountinfo": v1})
	current := files(t, map[string]string{"proc/swaps": noSwap, "proc/self/mountinfo": v2})
	counting := files(t, map[string]string{"a/memory.swap.max": "max\n"})
	swapping := files(t, map[string]string{"proc/swaps": noSwap,
		"proc/self/mountinfo": strings.Replace(v2, "/sys/fs/cgroup", counting, 1)})
	const limited = "memorySwap: {swapBehavior: LimitedSwap}\n"
	for name, c := range map[string]struct {
		host, fields string
		args         []string
		want         []string
	}{
		"swap": {old, "failSwapOn: true\n", nil,
			[]string{":3: failSwapOn: is true, but swap is on (/dev/vda2)", "swapoff -a"}},
		"swap by flag": {old, "", []string{"--fail-swap-on"},
			[]string{"--fail-swap-on: is true, but swap is on (/dev/vda2)"}},
		"a flag allows it": {old, "failSwapOn: true\n", []string{"--fail-swap-on=false"}, nil},
		"swap is allowed":  {old, "failSwapOn: false\n", nil, nil},
		"no swap":          {current, "failSwapOn: true\nsingleProcessOOMKill: false\n", nil, nil},
		"whole OOM kills on v1": {old, "singleProcessOOMKill: false\n", nil,
			[]string{":3: singleProcessOOMKill: false is not supported on this node", "cgroup v2"}},
		"limited swap on v1": {old, limited, nil,
			[]string{":3: memorySwap: LimitedSwap is not supported on this node: it needs cgroup v2", "NoSwap"}},
		"limited swap, no file": {files(t,
			map[string]string{"proc/self/mountinfo": strings.Replace(v2, "/sys/fs/cgroup", t.TempDir(), 1)}), limited, nil,
			[]string{":3: memorySwap: LimitedSwap ", "swapaccount=1"}},
		"limited swap": {swapping, limited, nil, nil},
		"memory QoS on v1": {old, "featureGates: {MemoryQoS: true}\n", nil,
			[]string{":3: featureGates: MemoryQoS is not supported on this node: it needs cgroup v2"}},
		"memory QoS": {current, "featureGates: {MemoryQoS: true}\n", nil, nil},
		"memory QoS by flag": {current, "", []string{"--feature-gates=MemoryQoS=true"},
			[]string{"set featureGates: {MemoryQoS: true} in the configuration file"}},
		"single OOM kills": {old, "singleProcessOOMKill: true\n", nil, nil},
	} {
		file, err := completeOn(t, c.host, c.fields, c.args...)
		if (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
		inFile := (*FileError)(nil)
		if err != nil && c.args == nil && (!errors.As(err, &inFile) || !strings.HasPrefix(err.Error(), file)) {
			t.Errorf("%s: %v does not name %s", name, err, file)
		}
	}
}

// A drop-in file can override a field about resources that is not supported.
func TestOverriddenResourceField(t *testing.T) {
	etc := files(t, map[string]string{
		"config.yaml": kubeletHead + "cgroupsPerQOS: false\n", "config.d/10.conf": kubeletHead + "cgroupsPerQOS: true\n",
	})
	if _, _, err := completeIn(t, etc); err != nil {
		t.Error(err)
	}
	if _, _, err := completeIn(t, files(t,
		map[string]string{"config.yaml": kubeletHead + "cgroupsPerQOS: false\n"})); err == nil ||
		!strings.Contains(err.Error(), "config.yaml:3: cgroupsPerQOS: false is not supported") {
		t.Error(err)
	}
}
