package config

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// files writes files below a new directory, and returns the directory.
func files(t *testing.T, content map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range content {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// completeIn is complete on a host with these files in /etc/podstead.
func completeIn(t *testing.T, etc string, args ...string) (*Options, []string, error) {
	t.Helper()
	var o Options
	f := pflag.NewFlagSet("run", pflag.ContinueOnError)
	o.AddFlags(f)
	o.configFile, o.configDir = filepath.Join(etc, "config.yaml"), filepath.Join(etc, "config.d")
	if err := f.Parse(args); err != nil {
		t.Fatal(err)
	}
	notices, err := o.Complete(f)
	return &o, notices, err
}

// The log names the default configuration file only if it would be read.
func TestLogFiles(t *testing.T) {
	etc := files(t, map[string]string{"config.yaml": kubeletHead + "maxPods: 5\n"})
	for want, c := range map[string]struct {
		etc  string
		args []string
	}{
		`msg="Configuration loaded" files=[` + etc + `/config.yaml]`:                           {etc: etc},
		`msg="No configuration file, using flags and defaults" file=/etc/podstead/config.yaml`: {etc: t.TempDir()},
		`msg="No configuration file, using flags and defaults"`:                                {etc, []string{"--config="}},
	} {
		o, _, err := completeIn(t, c.etc, c.args...)
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		o.LogFiles(slog.New(slog.NewTextHandler(&log, nil)))
		if got := strings.TrimSpace(log.String()); !strings.HasSuffix(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// The defaults apply if there is no file; the default file and its drop-in directory are read
// if they exist; another file has no default directory.
func TestDefaultConfigFiles(t *testing.T) {
	kubelet, own := kubeletHead+"maxPods: 5\n---\n", ownHead+"rootDir: /data\n"
	all := files(t, map[string]string{"config.yaml": kubelet + own, "config.d/10-a.conf": kubeletHead + "maxPods: 6\n"})
	other := files(t, map[string]string{"other.yaml": kubeletHead + "maxPods: 7\n",
		"d/1.conf": kubeletHead + "maxPods: 8\n"})
	for name, c := range map[string]struct {
		etc  string
		args []string
		pods int
		root string
		read []string
	}{
		"no file": {t.TempDir(), nil, 110, DefaultRoot, nil},
		"both":    {all, nil, 6, "/data", []string{all + "/config.yaml", all + "/config.d/10-a.conf"}},
		"a flag": {all, []string{"--max-pods=9"}, 9, "/data",
			[]string{all + "/config.yaml", all + "/config.d/10-a.conf"}},
		"another file": {all, []string{"--config=" + other + "/other.yaml"}, 7, DefaultRoot,
			[]string{other + "/other.yaml"}},
		"another dir": {all, []string{"--config-dir=" + other + "/d"}, 8, "/data",
			[]string{all + "/config.yaml", other + "/d/1.conf"}},
		"none":        {all, []string{"--config="}, 110, DefaultRoot, nil},
		"no drop-ins": {all, []string{"--config-dir="}, 5, "/data", []string{all + "/config.yaml"}},
		"only drop-ins": {all, []string{"--config=", "--config-dir=" + other + "/d"}, 8, DefaultRoot,
			[]string{other + "/d/1.conf"}},
	} {
		o, notices, err := completeIn(t, c.etc, c.args...)
		if err != nil || len(notices) > 0 {
			t.Errorf("%s: %v, %v", name, notices, err)
			continue
		}
		if o.Policy.MaxPods != c.pods || o.Paths.Root != c.root || !slices.Equal(o.ConfigFiles(), c.read) {
			t.Errorf("%s: %d pods, root %s, files %v; want %d, %s, %v", name, o.Policy.MaxPods, o.Paths.Root, o.ConfigFiles(),
				c.pods, c.root, c.read)
		}
	}
	broken := t.TempDir()
	if err := os.Symlink("/nowhere", filepath.Join(broken, "config.yaml")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := completeIn(t, broken); err == nil {
		t.Error("a default file that is a link to nothing is ignored")
	}
}

// Drop-in files are merged as by the kubelet: in the order of their names, subdirectories in
// their place; lists are replaced, maps are merged, and null resets a field.
func TestDropInFiles(t *testing.T) {
	dir := files(t, map[string]string{
		"config.yaml": kubeletHead + "clusterDNS: [10.0.0.1, 10.0.0.2]\nsystemReserved: {cpu: 500m, " +
			"memory: 1Gi}\nmaxPods: 1\nfileCheckFrequency: 9s\nauthentication: {webhook: {enabled: false, cacheTTL: 9s}}\n",
		"config.d/20-b.conf": kubeletHead + "maxPods: 3\nfileCheckFrequency: null\n---\n" + ownHead +
			"nodeLabels: {a: b}\n",
		"config.d/10-a.conf": kubeletHead + "maxPods: 2\nclusterDNS: [10.0.0.3]\nsystemReserved: {memory: " +
			"2Gi}\nauthentication: {webhook: {cacheTTL: 8s}}\nstaticPodPath: pods\n",
		"config.d/15-more/x/1.conf":   ownHead + "nodeLabels: {c: d}\ntokenAuthFile: tokens\n",
		"config.d/README.md":          "not read",
		"config.d/30-c.conf.disabled": "not read",
	})
	o, notices, err := completeIn(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(notices) != 1 || !strings.Contains(notices[0], "30-c.conf.disabled") ||
		!strings.Contains(notices[0], "README.md") {
		t.Errorf("notices: %q", notices)
	}
	if o.Policy.MaxPods != 3 || !slices.Equal(o.Network.ClusterDNS, []string{"10.0.0.3"}) ||
		o.Manifests.FileCheck != 20*time.Second {
		t.Errorf("%d pods, DNS %v, file check %s", o.Policy.MaxPods, o.Network.ClusterDNS, o.Manifests.FileCheck)
	}
	if s := o.Cgroups.systemReserved; len(s) != 2 || s["cpu"] != "500m" || s["memory"] != "2Gi" {
		t.Errorf("systemReserved: %v", s)
	}
	if r := o.Remote.Reviews; r.Tokens || r.TokenTTL != 8*time.Second {
		t.Errorf("authentication: %+v", r)
	}
	if l := o.Policy.NodeLabels; len(l) != 2 || l["a"] != "b" || l["c"] != "d" {
		t.Errorf("nodeLabels: %v", l)
	}
	// Relative paths are relative to the file that sets them. A file of tokens opens the port.
	if o.Manifests.Path != dir+"/config.d/pods" || o.Remote.TokenFile != dir+"/config.d/15-more/x/tokens" ||
		o.Remote.Address != "0.0.0.0:10250" {
		t.Errorf("paths %q and %q, port %q", o.Manifests.Path, o.Remote.TokenFile, o.Remote.Address)
	}
}

// Each error names the file, the line, the field, what is wrong and what would be right.
func TestErrorsInConfigFiles(t *testing.T) {
	for name, c := range map[string]struct {
		main, dropIn string
		args         []string
		want         string
	}{
		"unknown field": {main: ownHead + "rootdir: /x\n",
			want: "config.yaml:3: rootdir: unknown field; did you mean rootDir?"},
		"nothing similar": {main: ownHead + "zzzzzz: /x\n",
			want: "config.yaml:3: zzzzzz: unknown field; see docs/configuration.md"},
		"wrong document": {main: ownHead + "maxPods: 1\n",
			want: "config.yaml:3: maxPods: unknown field; it is a field of KubeletConfiguration, a document of its own"},
		"wrong document 2": {main: kubeletHead + "rootDir: /x\n", want: "config.yaml:3: rootDir: unknown field; it " +
			"is a field of PodsteadConfiguration, a document of its own with apiVersion: podstead.io/v1alpha1"},
		"second document": {main: kubeletHead + "maxPods: 1\n---\n# own\n" + ownHead + "\nkubeconfig: 7\n",
			want: "config.yaml:9: kubeconfig: 7 is not a string; quote it"},
		"two of a kind": {main: kubeletHead + "---\n" + kubeletHead,
			want: "config.yaml:5: kind: a second KubeletConfiguration; merge it with the one at line 1"},
		"type": {main: ownHead + "debug: 'on'\n",
			want: "config.yaml:3: debug: on is not a boolean; use true or false"},
		"integer": {main: ownHead + "maximumDeadContainers: 1.5\n",
			want: "config.yaml:3: maximumDeadContainers: 1.5 is not an integer"},
		"duration": {main: ownHead + "imageGCPeriod: soon\n",
			want: `config.yaml:3: imageGCPeriod: "soon" is not a valid duration, such as 20s`},
		"map": {main: ownHead + "nodeLabels: [a]\n",
			want: "config.yaml:3: nodeLabels: [a] is not a map, such as {disk: ssd}"},
		"list": {main: ownHead + "imageAutoUpdateWindows: 02:00-05:00\n",
			want: "config.yaml:3: imageAutoUpdateWindows: 02:00-05:00 is not a list, such as [a, b]"},
		"list item": {main: ownHead + "imageAutoUpdateWindows: [true]\n",
			want: "config.yaml:3: imageAutoUpdateWindows[0]: true is not a string; quote it"},
		"maintenance window": {main: ownHead + "debug: true\nimageAutoUpdateWindows: [Sat 02:00]\n",
			want: `config.yaml:4: imageAutoUpdateWindows: "Sat 02:00" is not a valid maintenance window: it has no end; use [DAYS ]HH:MM-HH:MM in local time`},
		"map value": {main: ownHead + "nodeLabels: {a: true}\n",
			want: "config.yaml:3: nodeLabels.a: true is not a string; quote it"},
		"range": {main: ownHead + "\nimageGCPeriod: 1ms\n",
			want: "config.yaml:4: imageGCPeriod=1ms: must be at least 1s"},
		"value": {main: ownHead + "manifestValidation: lenient\n",
			want: "config.yaml:3: manifestValidation: "},
		"label": {main: ownHead + "nodeLabels: {'a b': c}\n", want: "config.yaml:3: nodeLabels"},
		"kubelet's range": {main: kubeletHead + "clusterDNS: [x]\n",
			want: `config.yaml:3: clusterDNS: "x" is not an IP address`},
		"quoted": {main: kubeletHead + "maxPods: \"5\"\n",
			want: "config.yaml:3: maxPods: is the string \"5\"; must be an integer from 0 to 2147483647, without quotes"},
		"kubelet's type": {main: kubeletHead + "maxPods: many\n",
			want: "config.yaml:3: maxPods: many must be an integer"},
		"nested": {main: kubeletHead + "authentication:\n  webhook:\n    enabled: maybe\n",
			want: "config.yaml:5: authentication.webhook.enabled: maybe is not a boolean"},
		"two fields": {main: kubeletHead + "nodeStatusUpdateFrequency: 9m\nnodeStatusReportFrequency: 1m\n",
			want: "config.yaml:4: nodeStatusReportFrequency 1m0s must not be less"},
		"drop-in": {main: kubeletHead, dropIn: kubeletHead + "maxPods: -1\n",
			want: "config.d/1.conf:3: maxPods: -1 must be"},
		"overridden": {main: kubeletHead + "maxPods: -1\n", dropIn: kubeletHead + "maxPods: 1\n",
			want: "config.yaml:3: maxPods: -1 must be"},
		"file of a merged error": {main: kubeletHead + "imageGCLowThresholdPercent: 80\n",
			dropIn: kubeletHead + "imageGCHighThresholdPercent: 70\n",
			want:   "config.d/1.conf:3: imageGCHighThresholdPercent=70 and imageGCLowThresholdPercent=80"},
		"no kind in a drop-in": {main: kubeletHead, dropIn: "maxPods: 1\n", want: "config.d/1.conf:1: apiVersion and " +
			"kind are missing: must be kubelet.config.k8s.io/v1beta1 KubeletConfiguration or podstead.io/v1alpha1 " +
			"PodsteadConfiguration"},
		"drop-in of comments": {main: kubeletHead, dropIn: "# nothing\n", want: "config.d/1.conf: has no document"},
		"misspelled kind": {main: "apiVersion: podstead.io/v1alpha1\nkind: PodsteadConfig\n",
			want: "config.yaml:2: kind: apiVersion podstead.io/v1alpha1 and kind PodsteadConfig: must be"},
		"version": {main: "apiVersion: podstead.io/v1\nkind: PodsteadConfiguration\n",
			want: "config.yaml:1: apiVersion: podstead.io/v1: must be podstead.io/v1alpha1 for kind PodsteadConfiguration"},
		"a list": {main: "- a\n", want: "config.yaml:1: is not a mapping"},
		"duplicate": {main: ownHead + "debug: true\ndebug: false\n",
			want: `config.yaml:4: is not valid YAML: key "debug" already set in map`},
		"syntax after a document": {main: kubeletHead + "---\n" + ownHead + "a: b: c\n",
			want: "config.yaml:6: is not valid YAML: mapping values are not allowed"},
		"truncated": {main: "\n", want: "config.yaml: is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			content := map[string]string{"config.yaml": c.main}
			if c.dropIn != "" {
				content["config.d/1.conf"] = c.dropIn
			}
			dir := files(t, content)
			_, _, err := completeIn(t, dir, c.args...)
			var inFile *FileError
			if !errors.As(err, &inFile) || !strings.HasPrefix(err.Error(), filepath.Join(dir, c.want)) {
				t.Errorf("got  %v\nwant %s", err, filepath.Join(dir, c.want))
			}
		})
	}
}

// An error of the command line is not one of the file.
func TestErrorsOfFlagsWithAConfigFile(t *testing.T) {
	dir := files(t, map[string]string{"config.yaml": ownHead + "imageGCPeriod: 5m\n"})
	_, _, err := completeIn(t, dir, "--image-gc-period=1ms")
	var inFile *FileError
	if err == nil || errors.As(err, &inFile) || !strings.HasPrefix(err.Error(), "--image-gc-period=1ms") {
		t.Errorf("%v", err)
	}
}

// A file with only comments, as a package installs it, sets nothing.
func TestConfigFileOfComments(t *testing.T) {
	dir := files(t, map[string]string{"config.yaml": "# apiVersion: x\n"})
	o, notices, err := completeIn(t, dir)
	if err != nil || len(notices) > 0 || len(o.ConfigFiles()) != 1 {
		t.Errorf("%v, %v, %v", o.ConfigFiles(), notices, err)
	}
}
