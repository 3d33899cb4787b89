package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func evictionOf(t *testing.T, file string, args ...string) (*Options, error) {
	t.Helper()
	if file != "" {
		path := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(path, []byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"+file),
			0o600); err != nil {
			t.Fatal(err)
		}
		args = append([]string{"--config", path}, args...)
	}
	var o Options
	f := pflag.NewFlagSet("test", pflag.ContinueOnError)
	o.AddFlags(f)
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	_, err := o.Complete(f)
	return &o, err
}

func TestEvictionSettings(t *testing.T) {
	const defaults = "imagefs.available<15% imagefs.inodesFree<5% memory.available<100Mi " +
		"allocatableMemory.available<100Mi nodefs.available<10% nodefs.inodesFree<5%"
	for name, c := range map[string]struct {
		file string
		args []string
		want string
	}{
		"defaults":      {want: defaults},
		"an empty file": {file: "maxPods: 5\n", want: defaults},
		"a flag": {args: []string{"--eviction-hard=memory.available<1Gi, nodefs.available<5%"},
			want: "memory.available<1Gi allocatableMemory.available<1Gi nodefs.available<5%"},
		"none":   {args: []string{"--eviction-hard="}, want: ""},
		"a file": {file: "evictionHard: {pid.available: 10%}\n", want: "pid.available<10%"},
		"a merged file": {file: "evictionHard: {memory.available: 1Gi}\nmergeDefaultEvictionSettings: true\n",
			want: strings.ReplaceAll(defaults, "100Mi", "1Gi")},
		"a flag wins": {file: "evictionHard: {pid.available: 10%}\n", args: []string{"--eviction-hard=pid.available<7"},
			want: "pid.available<7"},
		"soft by the file": {file: "evictionHard: {}\nevictionSoft: {memory.available: 2Gi}\nevictionSoftGracePeriod: " +
			"{memory.available: 10s}\n", want: "memory.available<2Gi for 10s"},
		"soft by flags": {args: []string{"--eviction-hard=", "--eviction-soft=memory.available<2Gi",
			"--eviction-soft-grace-period=memory.available=10s", "--eviction-minimum-reclaim=memory.available=1Mi"},
			want: "memory.available<2Gi for 10s and 1Mi"},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := evictionOf(t, c.file, c.args...)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, th := range o.Eviction.Thresholds {
				text := fmt.Sprintf("%s<%s", th.Signal, th.Min)
				if th.Soft {
					text += " for " + th.Grace.String()
				}
				if th.Reclaim.Number > 0 {
					text += " and " + th.Reclaim.String()
				}
				got = append(got, text)
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			if o.Eviction.Transition != 5*time.Minute {
				t.Errorf("transition %s", o.Eviction.Transition)
			}
		})
	}
	// Zero in a file means the default, as in the kubelet; zero in a flag means zero.
	for arg, want := range map[string]time.Duration{"--eviction-hard=": 5 * time.Minute,
		"--eviction-pressure-transition-period=0": 0} {
		o, err := evictionOf(t, "evictionPressureTransitionPeriod: 0s\nevictionMaxPodGracePeriod: 9\n", arg)
		if err != nil || o.Eviction.Transition != want || o.Eviction.MaxPodGrace != 9 {
			t.Errorf("%s: %+v, %v", arg, o.Eviction, err)
		}
	}
}

func TestInvalidEvictionSettings(t *testing.T) {
	for arg, want := range map[string]string{
		"--eviction-hard=memory.available=100Mi": `"memory.available=100Mi" must be SIGNAL<VALUE, such as memory.available<100Mi`,
		"--eviction-soft=memory.available<1Gi": "--eviction-soft: memory.available: needs its time in " +
			"--eviction-soft-grace-period",
		"--eviction-hard=memory<1Gi":                   "--eviction-hard: memory: unknown signal",
		"--eviction-max-pod-grace-period=-1":           "--eviction-max-pod-grace-period=-1",
		"--eviction-pressure-transition-period=-1s":    "--eviction-pressure-transition-period=-1s",
		"--eviction-minimum-reclaim=memory.available=": "SIGNAL=VALUE",
	} {
		if _, err := evictionOf(t, "", arg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", arg, err, want)
		}
	}
}

// Hard thresholds reduce the allocatable resources.
func TestHardReserved(t *testing.T) {
	o, err := evictionOf(t, "")
	if err != nil {
		t.Fatal(err)
	}
	reserved := o.Eviction.HardReserved(v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Gi"),
		v1.ResourceEphemeralStorage: resource.MustParse("10Gi"), v1.ResourceCPU: resource.MustParse("2")})
	if got := fmt.Sprint(reserved.Memory(), " ", reserved.StorageEphemeral(), " ", len(reserved)); got != "100Mi 1Gi 2" {
		t.Error(got)
	}
}

// What podstead check warns of is what evicts pods.
func TestMinFree(t *testing.T) {
	o, err := evictionOf(t, "", "--eviction-hard=nodefs.available<10%,imagefs.available<1Gi",
		"--eviction-soft=nodefs.available<20%,nodefs.inodesFree<7%",
		"--eviction-soft-grace-period=nodefs.available=1m,nodefs.inodesFree=1m")
	if err != nil {
		t.Fatal(err)
	}
	for signal, want := range map[string]int64{"nodefs.available": 1 << 30, "imagefs.available": 1 << 30,
		"nodefs.inodesFree": 0, "imagefs.inodesFree": 0} {
		if got := o.Eviction.MinFree(signal, 10<<30); got != want {
			t.Errorf("%s: %d bytes of 10 GiB, want %d", signal, got, want)
		}
	}
}

// What stays free of a disk is the highest threshold of its signals, hard or soft, and its setting is named.
func TestReservedSpace(t *testing.T) {
	soft := []string{"--eviction-soft=nodefs.available<3Gi,memory.available<9Gi",
		"--eviction-soft-grace-period=nodefs.available=1m,memory.available=1m"}
	dir := t.TempDir()
	for name, c := range map[string]struct {
		args   []string
		images string
		bytes  int64
		want   string
	}{
		"defaults":               {nil, "/proc", 1 << 30, "evictionHard nodefs.available<10%"},
		"no known images":        {nil, "", 1 << 30, "evictionHard nodefs.available<10%"},
		"images on the same one": {nil, dir, 1536 << 20, "evictionHard imagefs.available<15%"},
		"bytes":                  {[]string{"--eviction-hard=nodefs.available<2Gi"}, dir, 2 << 30, "evictionHard nodefs.available<2Gi"},
		"soft":                   {soft, dir, 3 << 30, "evictionSoft nodefs.available<3Gi"},
		"none":                   {[]string{"--eviction-hard="}, dir, 0, ""},
		"no threshold of a disk": {[]string{"--eviction-hard=memory.available<1Gi,nodefs.inodesFree<50%"}, dir, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := evictionOf(t, "", c.args...)
			if err != nil {
				t.Fatal(err)
			}
			bytes, setting := o.Eviction.ReservedSpace(dir, c.images, 10<<30)
			if bytes != c.bytes || setting != c.want {
				t.Errorf("%d bytes for %q, want %d for %q", bytes, setting, c.bytes, c.want)
			}
		})
	}
}
