package podinputs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/podstead/podstead/cri"
)

const envPod = `
metadata:
  name: web-node1
  namespace: shop
  uid: uid-1
  labels: {app.kubernetes.io/name: web}
  annotations: {"a['b']": odd, motto: fine}
spec:
  nodeName: Node1
  serviceAccountName: robot
  resources: {limits: {memory: 3Gi}}
  initContainers:
  - {name: setup, resources: {limits: {cpu: "3"}}}
  containers:
  - name: web
    resources:
      limits: {memory: 100M, hugepages-2Mi: 4Mi}
      requests: {cpu: 1500m, memory: 64Mi}
  - {name: bare}
`

func envHarness(t *testing.T, container string) (*v1.Container, envInput) {
	t.Helper()
	pod, c := &v1.Pod{}, &v1.Container{}
	if err := errors.Join(yaml.UnmarshalStrict([]byte(envPod), pod),
		yaml.UnmarshalStrict([]byte(container), c)); err != nil {
		t.Fatal(err)
	}
	if c.Name == "" {
		c.Name, c.Resources = "web", pod.Spec.Containers[0].Resources
	}
	objects := newTestObjects()
	objects.store("shop", "cm", map[string]string{"port": "8080", "a.b": "dots", "Z": "last"})
	objects.putSecret("shop", "login", map[string]string{"user": "admin", "zero": "a\x00b"})
	objects.store("other", "elsewhere", map[string]string{"a": "b"})
	return c, envInput{
		pod: pod, objects: objects, podIPs: []string{"10.0.0.1", "fd00::1"}, hostIPs: []string{"192.0.2.1", "2001:db8::1"},
		allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("2"), v1.ResourceMemory: resource.MustParse("1Gi"),
			v1.ResourceEphemeralStorage: resource.MustParse("10Gi")},
		openFile: func(volume, path string) (io.ReadCloser, error) {
			if volume == "e" && path == "vars" {
				return io.NopCloser(strings.NewReader("# vars\nTOKEN='a $(PORT) b'\nEMPTY=''\n")), nil
			}
			return nil, fs.ErrNotExist
		},
	}
}

func TestResolveEnv(t *testing.T) {
	for name, c := range map[string]struct {
		container string
		want      []string
	}{
		"in order, each can refer to earlier ones": {
			`env: [{name: B, value: "$(A)"}, {name: A, value: x}, {name: C, value: "$(A) $$(A) $(B)"}]`,
			[]string{"B=$(A)", "A=x", "C=x $(A) $(A)"},
		},
		"a later duplicate replaces the value in place": {
			`env: [{name: A, value: x}, {name: B, value: two}, {name: A, value: "$(A)z"}]`,
			[]string{"A=xz", "B=two"},
		},
		"envFrom in order, then env over it": {
			`{envFrom: [{configMapRef: {name: cm}}, {secretRef: {name: login, optional: true}, prefix: S_}], env: [{name: port, value: "$(port)0"}]}`,
			nil,
		},
		"envFrom with prefix": {
			`{envFrom: [{configMapRef: {name: cm}, prefix: P_}], env: [{name: X, value: "$(P_port)"}, {name: P_Z, value: z}]}`,
			[]string{"P_Z=z", "P_a.b=dots", "P_port=8080", "X=8080"},
		},
		"keys": {
			`env: [{name: A, valueFrom: {configMapKeyRef: {name: cm, key: port}}}, {name: B, valueFrom: {secretKeyRef: {name: login, key: user}}}, {name: C, value: "$(A)$(B)"}]`,
			[]string{"A=8080", "B=admin", "C=8080admin"},
		},
		"missing optional references are not set": {
			`{envFrom: [{configMapRef: {name: none, optional: true}}, {secretRef: {name: none, optional: true}}],
			env: [{name: A, valueFrom: {configMapKeyRef: {name: none, key: a, optional: true}}}, {name: B, valueFrom: {configMapKeyRef: {name: cm, key: a, optional: true}}},
			{name: C, valueFrom: {secretKeyRef: {name: none, key: a, optional: true}}}, {name: D, valueFrom: {secretKeyRef: {name: login, key: a, optional: true}}},
			{name: E, valueFrom: {fileKeyRef: {volumeName: e, path: none, key: A, optional: true}}}, {name: F, valueFrom: {fileKeyRef: {volumeName: e, path: vars, key: A, optional: true}}},
			{name: G, value: "$(A)"}]}`,
			[]string{"G=$(A)"},
		},
		"downward": {
			`env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {name: B, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}},
			{name: C, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}, {name: D, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}},
			{name: E, valueFrom: {fieldRef: {fieldPath: spec.serviceAccountName}}}, {name: F, valueFrom: {fieldRef: {fieldPath: status.hostIP}}},
			{name: G, valueFrom: {fieldRef: {fieldPath: status.hostIPs}}}, {name: H, valueFrom: {fieldRef: {fieldPath: status.podIP}}},
			{name: I, valueFrom: {fieldRef: {fieldPath: status.podIPs}}}, {name: J, valueFrom: {fieldRef: {fieldPath: "metadata.labels['app.kubernetes.io/name']"}}},
			{name: K, valueFrom: {fieldRef: {fieldPath: "metadata.annotations['motto']"}}}, {name: L, valueFrom: {fieldRef: {fieldPath: "metadata.labels['no']"}}}]`,
			[]string{"A=web-node1", "B=shop", "C=uid-1", "D=Node1", "E=robot", "F=192.0.2.1", "G=192.0.2.1,2001:db8::1",
				"H=10.0.0.1", "I=10.0.0.1,fd00::1", "J=web", "K=fine", "L="},
		},
		"resources, rounded up": {
			`env: [{name: A, valueFrom: {resourceFieldRef: {resource: requests.cpu}}}, {name: B, valueFrom: {resourceFieldRef: {resource: requests.cpu, divisor: 1m}}},
			{name: C, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 1Mi}}}, {name: D, valueFrom: {resourceFieldRef: {resource: limits.memory}}},
			{name: E, valueFrom: {resourceFieldRef: {resource: requests.ephemeral-storage}}}, {name: F, valueFrom: {resourceFieldRef: {resource: limits.hugepages-2Mi, divisor: 1Mi}}}]`,
			[]string{"A=2", "B=1500", "C=96", "D=100000000", "E=0", "F=4"},
		},
		"limits default to the node's": {
			`env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}, {name: B, valueFrom: {resourceFieldRef: {resource: limits.ephemeral-storage, divisor: 1Gi}}},
			{name: C, valueFrom: {resourceFieldRef: {containerName: bare, resource: limits.memory, divisor: 1Gi}}}, {name: D, valueFrom: {resourceFieldRef: {containerName: setup, resource: limits.cpu}}},
			{name: E, valueFrom: {resourceFieldRef: {containerName: bare, resource: limits.hugepages-2Mi}}}, {name: F, valueFrom: {resourceFieldRef: {containerName: bare, resource: requests.memory}}}]`,
			[]string{"A=2", "B=10", "C=3", "D=3", "E=0", "F=0"},
		},
		"a file": {
			`env: [{name: A, valueFrom: {fileKeyRef: {volumeName: e, path: vars, key: TOKEN}}}]`,
			[]string{"A=a $(PORT) b"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			container, in := envHarness(t, c.container)
			env, err := resolveEnv(container, in)
			if c.want == nil {
				if err == nil || !strings.Contains(err.Error(), "S_zero: contains a NUL byte") ||
					strings.Contains(err.Error(), "a\x00b") {
					t.Errorf("error is %v", err)
				}
				return
			}
			var got []string
			for _, e := range env {
				got = append(got, e.Name+"="+e.Value)
			}
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
}

func TestResolveEnvWithHostNetwork(t *testing.T) {
	c, in := envHarness(t,
		`env: [{name: A, valueFrom: {fieldRef: {fieldPath: status.podIP}}}, {name: B, valueFrom: {fieldRef: {fieldPath: status.podIPs}}}]`)
	in.pod.Spec.HostNetwork, in.podIPs = true, nil
	env, err := resolveEnv(c, in)
	if want := []cri.EnvVar{{Name: "A", Value: "192.0.2.1"}, {Name: "B", Value: "192.0.2.1,2001:db8::1"}}; err != nil ||
		!slices.Equal(env, want) {
		t.Errorf("got %v, %v", env, err)
	}
}

// The error names everything that is missing, and no retry is needed: the creation
// of an object notifies the pod.
func TestResolveEnvReportsAllMissingObjects(t *testing.T) {
	c, in := envHarness(t, `{envFrom: [{secretRef: {name: none}}, {configMapRef: {name: elsewhere}}],
		env: [{name: A, valueFrom: {configMapKeyRef: {name: cm, key: nokey}}}, {name: B, valueFrom: {secretKeyRef: {name: login, key: nokey}}}]}`)
	_, err := resolveEnv(c, in)
	want := `envFrom[0]: Secret shop/none is in no manifest; envFrom[1]: ConfigMap shop/elsewhere is in no manifest; ` +
		`env A: ConfigMap shop/cm has no key "nokey"; env B: Secret shop/login has no key "nokey"`
	if err == nil || err.Error() != want || !errors.Is(err, cri.ErrAwaited) {
		t.Errorf("error is %v, want %s", err, want)
	}
	for container, want := range map[string]string{
		`env: [{name: A, valueFrom: {fileKeyRef: {volumeName: e, path: none, key: A}}}]`:               `env A: fileKeyRef: volume e has no file "none"`,
		`env: [{name: A, valueFrom: {fileKeyRef: {volumeName: e, path: vars, key: EMPTY}}}]`:           `env A: fileKeyRef: file "vars" in volume e has no variable EMPTY`,
		`env: [{name: A, valueFrom: {fieldRef: {fieldPath: spec.hostname}}}]`:                          `env A: fieldRef: fieldPath "spec.hostname" is not supported in an environment variable`,
		`env: [{name: A, valueFrom: {resourceFieldRef: {containerName: none, resource: limits.cpu}}}]`: `env A: resourceFieldRef: the pod has no container "none"`,
	} {
		c, in := envHarness(t, container)
		if _, err := resolveEnv(c, in); err == nil || err.Error() != want || errors.Is(err, cri.ErrAwaited) {
			t.Errorf("error is %v, want %s", err, want)
		}
	}
}

func TestLookupVariable(t *testing.T) {
	text := "# comment\n\n  \t\nA='1'\n\tB='two\n\nlines' # behind\nC=''\nD= 'x'\nE='$A " +
		"\\n'\r\nF='later'\nA='again'\nQ'UOTE='q'\nend='x'"
	for name, want := range map[string]string{"A": "1", "B": "two\n\nlines", "E": `$A \n`, "F": "later", "Q'UOTE": "q",
		"end": "x"} {
		if got, found, err := lookupVariable([]byte(text), name); err != nil || !found || got != want {
			t.Errorf("%s is %q, %v, %v, want %q", name, got, found, err, want)
		}
	}
	for _, name := range []string{"C", "D", "no", "", "lines'"} {
		if got, found, err := lookupVariable([]byte(text), name); err != nil || found || got != "" {
			t.Errorf("%s is %q, %v, %v", name, got, found, err)
		}
	}
	for text, want := range map[string]string{
		"A='1'\nB":            "line 2: must be NAME='value'",
		"A ='1'":              "line 1: must be",
		"='1'":                "line 1: must be",
		"# x\nA=1":            "line 2: the value must be in single quotes",
		`A="1"`:               "line 1: the value must be",
		"A='1":                "line 1: the quote is not closed",
		"A='\n\n' x\nB='1'":   "line 3: only a comment",
		"A='1''2'":            "line 1: only a comment",
		"A='1' B='2'\nno='1'": "line 1: only a comment",
	} {
		if _, _, err := lookupVariable([]byte(text), "no"); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: error is %v, want %s", text, err, want)
		}
	}
}

// Nested references, which double with each variable, are one error and take no memory.
func TestEnvIsBounded(t *testing.T) {
	nested := "env: [{name: V0, value: aaaaaaaa}"
	for i := 1; i <= 40; i++ {
		nested += fmt.Sprintf(", {name: V%d, value: $(V%d)$(V%d)}", i, i-1, i-1)
	}
	many := "env: [{name: V0, value: " + strings.Repeat("a", 1<<16) + "}"
	for i := 1; i <= 100; i++ {
		many += fmt.Sprintf(", {name: V%d, value: $(V0)}", i)
	}
	for text, want := range map[string]error{nested + "]": cri.ErrExpanded, many + "]": cri.ErrEnvironment} {
		c, in := envHarness(t, text)
		if _, err := resolveEnv(c, in); !errors.Is(err, want) || strings.Count(err.Error(), "\n") > 0 {
			t.Errorf("got %v, want one error, %v", err, want)
		}
		size := 0
		for _, value := range LiteralEnv(c) {
			size += len(value)
		}
		if size > 2*cri.MaxEnvironment {
			t.Errorf("variables of probes have %d bytes", size)
		}
	}
	c, in := envHarness(t, "env: [{name: A, valueFrom: {configMapKeyRef: {name: huge, key: a}}}]")
	in.objects.(*testObjects).store("shop", "huge", map[string]string{"a": strings.Repeat("a", cri.MaxExpanded+1)})
	if _, err := resolveEnv(c, in); err == nil || !strings.HasPrefix(err.Error(), "variable A: is 131073 bytes long") {
		t.Errorf("a long value: %v", err)
	}
}

func FuzzLookupVariable(f *testing.F) {
	f.Add([]byte("A='1'\nB='\n'\n#\nC= x\n"), "B")
	f.Add([]byte("A='1\n"), "A")
	f.Fuzz(func(t *testing.T, text []byte, name string) {
		value, found, err := lookupVariable(text, name)
		if found != (value != "") || err != nil && found {
			t.Errorf("%q, %v, %v", value, found, err)
		}
		if found && !strings.Contains(string(text), name+"='"+value+"'") {
			t.Errorf("%q of %q is not in the text", value, name)
		}
	})
}

// Links that a container has put into its volume lead nowhere else.
func TestOpenBelowStaysInTheVolume(t *testing.T) {
	dir := t.TempDir()
	volume := filepath.Join(dir, "volume")
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(volume, "sub"), 0o755))
	must(os.WriteFile(filepath.Join(dir, "outside"), []byte("A='secret'"), 0o600))
	must(os.WriteFile(filepath.Join(volume, "sub", "vars"), []byte("A='1'"), 0o600))
	must(os.Symlink("sub/vars", filepath.Join(volume, "inside")))
	must(os.Symlink("../outside", filepath.Join(volume, "up")))
	must(os.Symlink(filepath.Join(dir, "outside"), filepath.Join(volume, "away")))
	must(os.Symlink("..", filepath.Join(volume, "parent")))
	for _, path := range []string{"sub/vars", "inside"} {
		file, err := openBelow(volume, path)
		must(err)
		text, err := io.ReadAll(file)
		if file.Close(); err != nil || string(text) != "A='1'" {
			t.Errorf("%s holds %q, %v", path, text, err)
		}
	}
	for _, path := range []string{"up", "away", "parent/outside", "../outside", "sub", "no"} {
		if _, err := openBelow(volume, path); err == nil {
			t.Errorf("%s was opened", path)
		}
	}
}
