package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

const (
	kubeletHead = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	ownHead     = "apiVersion: podstead.io/v1alpha1\nkind: PodsteadConfiguration\n"
)

// runFlags returns the flags of run that users see.
func runFlags() (flags []*pflag.Flag) {
	f := pflag.NewFlagSet("run", pflag.ContinueOnError)
	(&Options{}).AddFlags(f)
	f.VisitAll(func(flag *pflag.Flag) {
		if !flag.Hidden {
			flags = append(flags, flag)
		}
	})
	return flags
}

// Each setting has one place in the documents, or a reason why it has none, a name of its own, and a
// help.
func TestEachSettingHasOnePlace(t *testing.T) {
	names := map[string]bool{}
	for _, s := range declared() {
		places := 0
		for _, place := range []string{s.field, s.own, s.without} {
			if place != "" {
				places++
			}
		}
		if places != 1 || s.help == "" || s.value.target == nil || s.flag == "" && s.without != "" {
			t.Errorf("%s: %d of field, own and without, want 1; help %q", s, places, s.help)
		}
		for _, name := range []string{s.path(), "--" + s.flag} {
			if names[name] {
				t.Errorf("two settings have the name %s", name)
			}
			names[name] = name != "" && name != "--"
		}
		if _, known := fieldsWithout[s.path()]; known || s.own != "" && slices.Contains(KnownFields(), s.own) {
			t.Errorf("%s is also in kubelet_fields.txt, or a field of a KubeletConfiguration", s)
		}
	}
	rows := declared()
	if values := rows[0].table.byValue; len(values) != len(rows) {
		t.Errorf("%d settings have %d values", len(rows), len(values))
	}
	for _, flag := range runFlags() {
		if !slices.ContainsFunc(rows, func(s *setting) bool { return s.flag == flag.Name }) {
			t.Errorf("--%s has no row", flag.Name)
		}
	}
}

// samples are a value of each flag, as text and as YAML if that differs.
var samples = map[string]struct{ text, yaml string }{
	"manifest-url":                    {"http://127.0.0.1/pods", ""},
	"manifest-oci":                    {"registry.local/fleet/web:stable", "[registry.local/fleet/web:stable]"},
	"manifest-verify-key":             {"file=/etc/podstead/key.pub", "[file=/etc/podstead/key.pub]"},
	"manifest-url-header":             {"A:b", "{A: [b]}"},
	"container-runtime-endpoint":      {"unix:///x.sock", ""},
	"max-container-restart-period":    {"10s", ""},
	"cluster-dns":                     {"10.0.0.1,10.0.0.2", "[10.0.0.1, 10.0.0.2]"},
	"plain-http-registry":             {"registry.local:5000", "['registry.local:5000']"},
	"cluster-domain":                  {"cluster.local", ""},
	"pod-dns":                         {"always", ""},
	"pod-dns-address":                 {"10.88.0.1/16", "[10.88.0.1/16]"},
	"system-reserved":                 {"cpu=1,memory=1Gi", "{cpu: 1, memory: 1Gi}"},
	"kube-reserved":                   {"memory=1Gi", "{memory: 1Gi}"},
	"enforce-node-allocatable":        {"none", "[none]"},
	"topology-manager-policy":         {"restricted", ""},
	"topology-manager-scope":          {"pod", ""},
	"topology-manager-policy-options": {"max-allowable-numa-nodes=9", `{max-allowable-numa-nodes: "9"}`},
	"system-reserved-cgroup":          {"/system.slice", ""},
	"kube-reserved-cgroup":            {"/kube.slice", ""},
	"cpu-cfs-quota-period":            {"50ms", ""},
	"cpu-manager-policy":              {"static", ""},
	"cpu-manager-policy-options":      {"full-pcpus-only=true", `{full-pcpus-only: "true"}`},
	"reserved-cpus":                   {"0-1", ""},
	"memory-manager-policy":           {"Static", ""},
	"reserved-memory":                 {"0:memory=100Mi", "[{numaNode: 0, limits: {memory: 100Mi}}]"},
	"healthz-bind-address":            {"127.0.0.2", ""},
	"address":                         {"127.0.0.1", ""},
	"authorization-mode":              {"AlwaysAllow", ""},
	"tls-min-version":                 {"VersionTLS13", ""},
	"tls-cipher-suites": {"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
		"[TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]"},
	"allowed-unsafe-sysctls":                {"net.core.*", `["net.core.*"]`},
	"container-log-max-size":                {"1Mi", ""},
	"container-log-max-files":               {"3", ""},
	"image-gc-low-threshold":                {"50", ""},
	"image-gc-high-threshold":               {"90", ""},
	"maximum-image-ttl-duration":            {"48h", ""},
	"shutdown-grace-period-critical-pods":   {"7s", ""},
	"shutdown-grace-period-by-pod-priority": {"5=7s", "[{priority: 5, shutdownGracePeriodSeconds: 7}]"},
	"register-with-taints":                  {"a=b:NoSchedule", "[{key: a, value: b, effect: NoSchedule}]"},
	"provider-id":                           {"x://y", ""},
	"eviction-hard":                         {"memory.available<1Gi", "{memory.available: 1Gi}"},
	"eviction-soft":                         {"nodefs.available<10Gi", "{nodefs.available: 10Gi}"},
	"eviction-soft-grace-period":            {"nodefs.available=1m", "{nodefs.available: 1m}"},
	"eviction-minimum-reclaim":              {"nodefs.available=1Gi", "{nodefs.available: 1Gi}"},
	"node-ip":                               {"192.0.2.1,2001:db8::1", ""},
	"node-labels":                           {"a=b,c=d", "{a: b, c: d}"},
	"runtime-classes":                       {"a=b", "{a: b}"},
	"manifest-validation":                   {"warn", ""},
	"pod-logs-max-size":                     {"10Mi", ""},
	"image-gc-period":                       {"3m", ""},
	"image-auto-update-window":              {"Sat,Sun 02:00-05:00", `["Sat,Sun 02:00-05:00"]`},
	"cloud-provider":                        {"external", ""},
	"log-format":                            {"json", ""},
	"minimum-container-ttl-duration":        {"9s", ""},
	"minimum-image-ttl-duration":            {"9s", ""},
}

// needed are the flags without which another one is invalid.
var needed = map[string][]string{
	"cpu-manager-policy":                {"--reserved-cpus=0"},
	"cpu-manager-policy-options":        {"--cpu-manager-policy=static", "--reserved-cpus=0"},
	"memory-manager-policy":             {"--reserved-memory=0:memory=100Mi"},
	"topology-manager-policy-options":   {"--topology-manager-policy=restricted"},
	"eviction-soft":                     {"--eviction-soft-grace-period=nodefs.available=2m"},
	"eviction-soft-grace-period":        {"--eviction-soft=nodefs.available<10Gi"},
	"tls-cert-file":                     {"--tls-private-key-file=/k"},
	"tls-private-key-file":              {"--tls-cert-file=/c"},
	"image-credential-provider-config":  {"--image-credential-provider-bin-dir=/b"},
	"image-credential-provider-bin-dir": {"--image-credential-provider-config=/c"},
}

// nested returns YAML that sets the field at a path.
func nested(path, value string) string {
	steps := strings.Split(path, ".")
	return strings.Join(steps, ": {") + ": " + value + strings.Repeat("}", len(steps)-1) + "\n"
}

// settingsOf returns the exported settings.
func settingsOf(t *testing.T, o *Options) map[string]any {
	t.Helper()
	data, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// A field means the same as its flag, and the flag overrides it.
func TestFieldsMeanTheSameAsFlags(t *testing.T) {
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	defaults, _, err := complete(t)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range declared() {
		flag := row.declared
		if flag == nil || row.without != "" {
			continue // settings without a flag have tests of their own
		}
		sample, ok := samples[flag.Name]
		if !ok {
			switch kind := flag.Value.Type(); kind {
			case "bool":
				sample.text = fmt.Sprint(flag.DefValue != "true")
			case "int", "int64":
				sample.text = "77"
			case "duration":
				sample.text = "77s"
			case "string":
				sample.text = "/some/path"
			default:
				t.Errorf("--%s: no sample of a %s", flag.Name, kind)
				continue
			}
		}
		switch flag.Name {
		case "kubeconfig":
			sample.text = kubeconfig
		case "bootstrap-kubeconfig":
			sample.text = kubeconfig
		case "pod-cidr":
			sample.text = "10.100.0.0/16"
		case "hostname-override":
			sample.text = "other"
		case "cgroup-root", "cgroup-driver":
			continue // named differently on purpose: TestCgroupsOfConfigFile
		}
		if sample.yaml == "" {
			sample.yaml = sample.text
		}
		head, path := kubeletHead, row.path()
		if row.own != "" {
			head = ownHead
		}
		file := filepath.Join(dir, flag.Name+".yaml")
		if err := os.WriteFile(file, []byte(head+nested(path, sample.yaml)), 0o600); err != nil {
			t.Fatal(err)
		}
		also := append([]string{"--config="}, needed[flag.Name]...)
		if flag.Name == "bootstrap-kubeconfig" {
			also = append(also, "--kubeconfig="+kubeconfig)
		}
		byFlag, _, err := complete(t, append(also, "--"+flag.Name+"="+sample.text)...)
		if err != nil {
			t.Errorf("--%s: %v", flag.Name, err)
			continue
		}
		also[0] = "--config=" + file
		byField, _, err := complete(t, also...)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if d := cmp.Diff(settingsOf(t, byFlag), settingsOf(t, byField)); d != "" {
			t.Errorf("--%s and %s differ: %s", flag.Name, path, d)
		}
		if len(needed[flag.Name]) == 0 && cmp.Equal(settingsOf(t, byField), settingsOf(t, defaults)) {
			t.Errorf("%s: %s changes nothing", path, sample.yaml)
		}
		if len(needed[flag.Name]) > 0 || flag.DefValue == "" || flag.DefValue == "[]" {
			continue // the flag has no other value that is valid here
		}
		both, _, err := complete(t, append(also, "--"+flag.Name+"="+strings.Trim(flag.DefValue, "[]"))...)
		if err != nil || cmp.Equal(settingsOf(t, both), settingsOf(t, byField)) {
			t.Errorf("--%s=%s does not override %s: %v", flag.Name, flag.DefValue, path, err)
		}
	}
}
