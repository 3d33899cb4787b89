package spec

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// environ returns the environment variables of the container's process, as the kernel has
// them.
func environ(t *testing.T, i harness.Instance) map[string]string {
	t.Helper()
	cmdline(t, i)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", i.Pid))
	if err != nil {
		t.Fatal(err)
	}
	vars := map[string]string{}
	for entry := range strings.SplitSeq(string(text), "\x00") {
		if name, value, ok := strings.Cut(entry, "="); ok {
			vars[name] = value
		}
	}
	return vars
}

// cmdline returns the command of the container's process. The runtime reports the process as
// running slightly before it has executed the command.
func cmdline(t *testing.T, i harness.Instance) string {
	t.Helper()
	var command string
	harness.Await(t, "the container's process has executed its command", func() error {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", i.Pid))
		if command = strings.ReplaceAll(strings.TrimSuffix(string(text), "\x00"), "\x00", " "); command == "" ||
			strings.HasPrefix(command, "runc") {
			return fmt.Errorf("the command is %q", command)
		}
		return err
	})
	return command
}

func mustHave(t *testing.T, got, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if v, ok := got[name]; !ok || v != value {
			t.Errorf("variable %s is %q (set: %v), want %q", name, v, ok, value)
		}
	}
}

const secretWord = "sesame-open-17"

// A pod that is created before the objects that it refers to waits with a status that names
// them, and starts as soon as they exist. No client gets the data of a Secret.
func TestVariablesFromObjects(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("p.yaml", fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  terminationGracePeriodSeconds: 0
  containers:
    - name: main
      image: %s
      command: [sleep]
      args: ["$(port)"]
      envFrom:
        - configMapRef: {name: all}
        - {prefix: A_, secretRef: {name: login}}
        - configMapRef: {name: none, optional: true}
      env:
        - {name: port, value: "$(port)81"}
        - {name: FROM_KEY, valueFrom: {configMapKeyRef: {name: all, key: port}}}
        - {name: PASSWORD, valueFrom: {secretKeyRef: {name: login, key: password}}}
        - {name: URL, value: "http://$(A_user):$(PASSWORD)@$(FROM_KEY)$(NONE)$$(port)"}
        - {name: LEFT_OUT, valueFrom: {secretKeyRef: {name: login, key: none, optional: true}}}
`, testbed.BusyboxImage))
		n.MustStart()
		waiting := func(words ...string) {
			t.Helper()
			n.AwaitStatus("p", "waits and names the missing objects", func(p v1.Pod) error {
				for _, c := range p.Status.ContainerStatuses {
					if w := c.State.Waiting; w != nil && w.Reason == "CreateContainerConfigError" {
						for _, word := range words {
							if !strings.Contains(w.Message, word) {
								return fmt.Errorf("%q is not in %q", word, w.Message)
							}
						}
						return nil
					}
				}
				return fmt.Errorf("%+v", p.Status.ContainerStatuses)
			})
		}
		waiting("envFrom[0]: ConfigMap default/all is in no manifest", "envFrom[1]: Secret default/login is in no manifest",
			"env PASSWORD: Secret default/login")
		n.WriteManifest("objects.yaml", `apiVersion: v1
kind: List
items:
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: all}, data: {port: "80", "a.b-c": dots, multi: "one\ntwo"}}
  - {apiVersion: v1, kind: Secret, metadata: {name: login}, data: {user: cm9vdA==}}
`)
		waiting(`env PASSWORD: Secret default/login has no key "password"`)
		n.WriteManifest("secret.yaml", "# Secrets may lie anywhere.\n")
		n.WriteManifest("objects.yaml", `apiVersion: v1
kind: ConfigMap
metadata: {name: all}
data: {port: "80", "a.b-c": dots, multi: "one\ntwo"}
---
apiVersion: v1
kind: Secret
metadata: {name: login}
data: {user: cm9vdA==}
stringData: {password: `+secretWord+`}
`)
		n.RemoveManifest("secret.yaml")
		i := n.AwaitRunning("p")
		vars := environ(t, i)
		mustHave(t, vars, map[string]string{
			"port": "8081", "a.b-c": "dots", "multi": "one\ntwo", "A_user": "root", "A_password": secretWord, "FROM_KEY": "80",
			"PASSWORD": secretWord, "URL": "http://root:" + secretWord + "@80$(NONE)$(port)",
		})
		if _, ok := vars["LEFT_OUT"]; ok {
			t.Error("an optional variable without a value is set")
		}
		if command := cmdline(t, i); command != "sleep 8081" {
			t.Errorf("its command is %q", command)
		}
		if out, errs, status := n.Podstead("get", "secrets", "--api-socket", n.Socket()); status != 0 ||
			!strings.Contains(out, "login") || !strings.Contains(out, "password,user") {
			t.Errorf("get secrets exited with %d:\n%s%s", status, out, errs)
		}
		mustNotLeak(n, secretWord)
	})
}

// mustNotLeak fails the test if a secret word is anywhere that others can read.
func mustNotLeak(n *harness.Node, word string) {
	n.T.Helper()
	encoded := []string{word, "c2VzYW1lLW9wZW4tMTc"}
	mustHide := func(where, text string) {
		for _, form := range encoded {
			if strings.Contains(text, form) {
				n.T.Errorf("%s contains a secret", where)
			}
		}
	}
	for _, path := range []string{"/pods", "/podstead/v1/manifests", "/podstead/v1/objects", "/podstead/v1/events",
		"/api/v1/pods", "/api/v1/events"} {
		body, err := n.Get(n.T.Context(), path)
		if err != nil {
			n.T.Fatal(err)
		}
		mustHide(path, string(body))
	}
	log, err := os.ReadFile(n.Log())
	if err != nil {
		n.T.Fatal(err)
	}
	mustHide("the log", string(log))
	// Those of the daemon's files that contain the secret are readable by root only, and so
	// are their directories.
	found := 0
	err = filepath.WalkDir(n.Root, func(path string, entry os.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the daemon has replaced it meanwhile
		}
		if err != nil || !strings.Contains(string(text), encoded[0]) && !strings.Contains(string(text), encoded[1]) {
			return err
		}
		file, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		found++
		directory, err := os.Stat(filepath.Dir(path))
		if err != nil {
			return err
		}
		if file.Mode() != 0o600 || directory.Mode().Perm() != 0o700 {
			n.T.Errorf("%s contains a secret and has mode %v in a directory with mode %v", path, file.Mode(), directory.Mode())
		}
		return nil
	})
	if err != nil || found == 0 {
		n.T.Errorf("%d files contain the secret, want at least the checkpoint: %v", found, err)
	}
}

func TestVariablesFromTheDownwardAPI(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		var env strings.Builder
		for name, source := range map[string]string{
			"NAME": "fieldRef: {fieldPath: metadata.name}", "NAMESPACE": "fieldRef: {fieldPath: metadata.namespace}",
			"POD_UID": "fieldRef: {fieldPath: metadata.uid}", "NODE": "fieldRef: {fieldPath: spec.nodeName}",
			"ACCOUNT": "fieldRef: {fieldPath: spec.serviceAccountName}",
			"POD_IP":  "fieldRef: {fieldPath: status.podIP}", "POD_IPS": "fieldRef: {fieldPath: status.podIPs}",
			"LABEL":      `fieldRef: {fieldPath: "metadata.labels['app.kubernetes.io/name']"}`,
			"NO_LABEL":   `fieldRef: {fieldPath: "metadata.labels['none']"}`,
			"ANNOTATION": `fieldRef: {fieldPath: "metadata.annotations['example.com/motto']"}`,
			"CPU":        "resourceFieldRef: {resource: limits.cpu}",
			"CPU_MILLI":  "resourceFieldRef: {resource: limits.cpu, divisor: 1m}",
			"MEMORY":     "resourceFieldRef: {resource: limits.memory, divisor: 1Mi}",
			"REQUEST":    "resourceFieldRef: {resource: requests.memory, divisor: 1Mi}",
			"OTHERS":     "resourceFieldRef: {containerName: main, resource: limits.memory, divisor: 1M}",
		} {
			fmt.Fprintf(&env, "        - {name: %s, valueFrom: {%s}}\n", name, source)
		}
		n.WriteManifest("p.yaml", fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata:
  name: p
  namespace: shop
  labels: {app.kubernetes.io/name: web}
  annotations: {example.com/motto: keep on}
spec:
  terminationGracePeriodSeconds: 0
  containers:
    - name: main
      image: %[1]s
      command: [sleep, "100000"]
      resources: {limits: {cpu: 300m, memory: 48Mi}, requests: {memory: 32Mi}}
      env:
%[2]s    - name: bare
      image: %[1]s
      command: [sleep, "100000"]
      env:
%[2]s`, testbed.BusyboxImage, env.String()))
		n.MustStart()
		i, bare := n.AwaitRunning("p"), n.AwaitContainer("p", "bare")
		p := n.AwaitReady("p")
		ip := p.Status.PodIP
		if out := n.Exec(i, "ip", "-4", "addr"); ip == "" || !strings.Contains(out, " "+ip+"/") {
			t.Errorf("%q is not the pod's address: %s", ip, out)
		}
		both := map[string]string{
			"NAME": n.PodName("p"), "NAMESPACE": "shop", "POD_UID": string(p.UID), "NODE": n.Name, "ACCOUNT": "", "POD_IP": ip,
			"POD_IPS": ip,
			"LABEL":   "web", "NO_LABEL": "", "ANNOTATION": "keep on", "OTHERS": "51",
		}
		vars := environ(t, i)
		mustHave(t, vars, both)
		mustHave(t, vars, map[string]string{"CPU": "1", "CPU_MILLI": "300", "MEMORY": "48", "REQUEST": "32"})
		// Without limits the container may use what the node has.
		vars = environ(t, bare)
		mustHave(t, vars, both)
		mustHave(t, vars, map[string]string{"REQUEST": "0"})
		var kib, mib int
		for line := range strings.SplitSeq(n.Exec(bare, "cat", "/proc/meminfo"), "\n") {
			_, _ = fmt.Sscanf(line, "MemTotal: %d kB", &kib)
		}
		if _, err := fmt.Sscan(vars["MEMORY"], &mib); err != nil || vars["CPU"] != fmt.Sprint(runtime.NumCPU()) ||
			mib > kib/1024+1 || mib < kib/1024/2 {
			t.Errorf("limits are CPU %s and MEMORY %s; the node has %d CPUs and %d KiB", vars["CPU"], vars["MEMORY"],
				runtime.NumCPU(), kib)
		}
	})
}

// An init container writes the file, the main container reads it.
func TestVariablesFromAFile(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("p.yaml", fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  terminationGracePeriodSeconds: 0
  volumes: [{name: e, emptyDir: {}}]
  initContainers:
    - name: make
      image: %[1]s
      command: [sh, -c, "printf \"# made\\nTOKEN='a b'\\nOTHER='x'\\n\" > /e/vars"]
      volumeMounts: [{name: e, mountPath: /e}]
  containers:
    - name: main
      image: %[1]s
      command: [sleep, "100000"]
      env:
        - {name: GOT, valueFrom: {fileKeyRef: {volumeName: e, path: vars, key: TOKEN}}}
        - {name: NONE, valueFrom: {fileKeyRef: {volumeName: e, path: vars, key: NONE, optional: true}}}
`, testbed.BusyboxImage))
		n.MustStart()
		vars := environ(t, n.AwaitRunning("p"))
		mustHave(t, vars, map[string]string{"GOT": "a b"})
		if _, ok := vars["NONE"]; ok {
			t.Error("an optional variable that the file lacks is set")
		}
	})
}

// A changed object restarts the pods that opted in, once, also across a restart of the daemon.
// A removed object stops nothing.
func TestChangedObjectRestartsThePod(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		pod := func(name, annotations string) string {
			return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s, annotations: {%s}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
    - {name: main, image: %s, command: [sleep, "100000"], env: [{name: A, valueFrom: {configMapKeyRef: {name: cm, key: a}}}]}
`, name, annotations, testbed.BusyboxImage)
		}
		object := func(value string) string {
			return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cm}\ndata: {a: " + value + "}\n"
		}
		n.WriteManifest("eager.yaml", pod("eager", `podstead.io/restart-on-change: "true"`))
		n.WriteManifest("patient.yaml", pod("patient", ""))
		n.WriteManifest("cm.yaml", object("one"))
		n.MustStart()
		eager, patient := n.AwaitRunning("eager"), n.AwaitRunning("patient")
		mustHave(t, environ(t, eager), map[string]string{"A": "one"})

		n.WriteManifest("cm.yaml", object("two"))
		second := n.AwaitOther("eager", eager)
		mustHave(t, environ(t, second), map[string]string{"A": "two"})
		n.MustStillRun("patient", patient)

		// The same content in another form, and a restart of the daemon.
		n.WriteManifest("cm.yaml", "# the same\n"+object("two"))
		n.Restart()
		n.AwaitReady("eager")
		n.AwaitReady("patient")
		n.MustStillRun("eager", second)

		// A change while the daemon is down is not missed.
		n.Kill()
		n.WriteManifest("cm.yaml", object("three"))
		n.MustStart()
		third := n.AwaitOther("eager", second)
		mustHave(t, environ(t, third), map[string]string{"A": "three"})
		n.MustStillRun("patient", patient)

		// An invalid edit, then a removal: both are reported, and the pod keeps running.
		n.WriteManifest("cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cm}\ndate: {a: four}\n")
		n.AwaitManifestError("cm.yaml:4", `date: unknown field; did you mean`)
		n.MustStillRun("eager", third)
		n.RemoveManifest("cm.yaml")
		for _, name := range []string{"eager", "patient"} {
			n.AwaitStatus(name, "the missing object is reported", func(p v1.Pod) error {
				for _, c := range p.Status.Conditions {
					if c.Type == "podstead.io/ManifestFault" &&
						strings.Contains(c.Message, "ConfigMap default/cm is referenced by the pod but is in no manifest") {
						return nil
					}
				}
				text, _ := json.Marshal(p.Status.Conditions)
				return fmt.Errorf("%s", text)
			})
		}
		n.Restart()
		n.AwaitReady("eager")
		n.WriteManifest("cm.yaml", object("three"))
		n.AwaitStatus("eager", "the object is back", func(p v1.Pod) error {
			for _, c := range p.Status.Conditions {
				if c.Type == "podstead.io/ManifestFault" {
					return fmt.Errorf("%s", c.Message)
				}
			}
			return nil
		})
		n.MustStillRun("eager", third)
		n.MustStillRun("patient", patient)
		if p, err := n.Pod("eager"); err != nil || p.Status.ContainerStatuses[0].RestartCount != 2 {
			t.Errorf("restarts: %+v, %v", p.Status.ContainerStatuses, err)
		}
	})
}
