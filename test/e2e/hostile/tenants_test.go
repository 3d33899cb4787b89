package hostile

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// The attacks of tenants who may create pods, ConfigMaps and Secrets in a cluster that binds
// their pods to this node.
func TestHostileTenants(t *testing.T) {
	t.Parallel()
	n := harness.NewNode(t, harness.SharedRuntime(t, testbed.Containerd24))
	ctx := t.Context()
	c, a, kubeconfig := harness.NewCluster(ctx, n)
	if err := c.StartController("persistentvolume-binder-controller"); err != nil {
		t.Fatal(err)
	}
	n.Args = append(n.Args, "--kubeconfig", kubeconfig)
	a.Create("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: default}\n---\n" +
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kube-root-ca.crt}\ndata: {ca.crt: the-root}\n")
	n.WriteManifest("bystander.yaml", harness.SleepPod("bystander", "x"))
	n.MustStart()
	bystander := n.AwaitRunning("bystander")
	for _, attack := range []struct {
		name string
		run  func(n *hostileNode, a *harness.Admin)
	}{
		{"nested variables", nestedVariables},
		{"large pods", largePods},
		{"missing objects", missingObjects},
		{"large objects", largeObjects},
		{"drivers of inline volumes", manyDrivers},
		{"large claims", largeClaims},
		{"several namespaces", severalNamespaces},
	} {
		t.Run(attack.name, func(t *testing.T) {
			h := &hostileNode{Node: &harness.Node{Node: n.Node, T: t, Runtime: n.Runtime}}
			h.resetPeak()
			attack.run(h, &harness.Admin{T: t, Config: a.Config})
			h.check(attack.name)
		})
	}
	if !t.Failed() {
		n.Restart()
		n.AwaitReady("bystander")
		n.MustStillRun("bystander", bystander)
		(&hostileNode{Node: n}).check("start among the tenants' pods")
	}
}

// nestedVariables creates a pod whose variables expand to gigabytes.
func nestedVariables(n *hostileNode, a *harness.Admin) {
	env := "env:\n- {name: V0, value: aaaaaaaaaaaaaaaa}\n"
	for i := range 30 {
		env += fmt.Sprintf("- {name: V%d, value: \"%s\"}\n", i+1, strings.Repeat(fmt.Sprintf("$(V%d)", i), 4))
	}
	a.Create(n.ClusterPod("nested", testbed.BusyboxImage, "hostNetwork: true\n", env))
	n.AwaitStatus("nested", "it is not started", func(p v1.Pod) error {
		for _, c := range p.Status.ContainerStatuses {
			if w := c.State.Waiting; w != nil && w.Reason == "CreateContainerConfigError" {
				return nil
			}
		}
		return fmt.Errorf("%+v", p.Status.ContainerStatuses)
	})
}

// largePods creates pods as large as an API server takes, whose arguments, environment or
// annotations are large, also while the daemon does not run. Those that have space run, and the
// others are rejected.
func largePods(n *hostileNode, a *harness.Admin) {
	const count, running = 20, 1
	create := func(i int) {
		env := "env:\n"
		for v := range 10 {
			env += fmt.Sprintf("- {name: V%d, value: %q}\n", v, strings.Repeat("v", 100_000))
		}
		pod := n.ClusterPod(fmt.Sprintf("large%d", i), testbed.BusyboxImage, "hostNetwork: true\n", env)
		a.Create(strings.Replace(pod, "metadata: {",
			fmt.Sprintf("metadata: {annotations: {a: %q}, ", strings.Repeat("a", 200_000)), 1))
	}
	a.Create(n.ClusterPod("args", testbed.BusyboxImage, "hostNetwork: true\n",
		"args: ["+strings.Repeat("a,", 300_000)+"a]\n"))
	n.Await("the pod with many arguments is accepted", func() error {
		_, err := n.Pod("args")
		return err
	})
	for i := range count / 2 {
		create(i)
	}
	var before []harness.Instance
	for i := range running {
		before = append(before, n.AwaitRunning(fmt.Sprintf("large%d", i)))
	}
	rejected := func(i int) {
		n.Await("a pod without space is rejected", func() error {
			var pod v1.Pod
			if err := a.Get(&pod, "pod", n.PodName(fmt.Sprintf("large%d", i))); err != nil {
				return err
			}
			if pod.Status.Phase != v1.PodFailed || pod.Status.Reason != "PodsTooLarge" {
				return fmt.Errorf("%s %s", pod.Status.Phase, pod.Status.Reason)
			}
			return nil
		})
	}
	rejected(count/2 - 1)
	n.check("large pods, running")
	n.Kill()
	for i := count / 2; i < count; i++ {
		create(i)
	}
	n.MustStart()
	for i := range running {
		n.MustStillRun(fmt.Sprintf("large%d", i), before[i])
	}
	rejected(count - 1)
	n.check("start among large pods")
	for i := range count {
		a.Must("delete", "pod", n.PodName(fmt.Sprintf("large%d", i)), "--wait=false")
	}
	a.Must("delete", "pod", n.PodName("args"), "--wait=false")
}

// missingObjects creates a pod that refers to thousands of ConfigMaps that do not exist, each of
// which would be watched.
func missingObjects(n *hostileNode, a *harness.Admin) {
	env := "envFrom:\n"
	for i := range 4000 {
		env += fmt.Sprintf("- configMapRef: {name: missing-%d, optional: true}\n", i)
	}
	a.Create(n.ClusterPod("missing", testbed.BusyboxImage, "hostNetwork: true\n", env))
	n.AwaitStatus("missing", "it waits", func(p v1.Pod) error {
		if p.Status.Reason != "TooManyReferences" {
			return fmt.Errorf("%s: %s", p.Status.Reason, p.Status.Message)
		}
		return nil
	})
}

// largeObjects creates pods with many ConfigMaps as large as an API server takes. A namespace has
// space for those of the first pods.
func largeObjects(n *hostileNode, a *harness.Admin) {
	const pods, each, fitting = 8, 6, 3
	for i := range pods {
		name := fmt.Sprintf("objects%d", i)
		createObjectsPod(n, a, "default", name, each)
		// The pods whose objects have space run; the last one waits.
		if i < fitting {
			n.AwaitRunning(name)
		}
	}
	if last, err := n.Running(fmt.Sprintf("objects%d", pods-1)); err != nil || len(last) > 0 {
		n.T.Errorf("the last pod runs: %v, %v", last, err)
	}
}

// createObjectsPod creates a pod with as many ConfigMaps of a megabyte.
func createObjectsPod(n *hostileNode, a *harness.Admin, namespace, name string, objects int) {
	n.T.Helper()
	volumes, mounts := "hostNetwork: true\nenableServiceLinks: false\nvolumes:\n", "volumeMounts:\n"
	for v := range objects {
		object := fmt.Sprintf("large-%s-%d", name, v)
		text, err := json.Marshal(map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]string{"name": object, "namespace": namespace},
			"data": map[string]string{"x": strings.Repeat("x", 1_000_000)},
		})
		if err != nil {
			n.T.Fatal(err)
		}
		a.Create(string(text))
		volumes += fmt.Sprintf("- {name: v%d, configMap: {name: %s}}\n", v, object)
		mounts += fmt.Sprintf("- {name: v%d, mountPath: /v%d}\n", v, v)
	}
	pod := n.ClusterPod(name, testbed.BusyboxImage, volumes, mounts)
	a.Create(strings.Replace(pod, "metadata: {", "metadata: {namespace: "+namespace+", ", 1))
}

// severalNamespaces uses all that pods, ConfigMaps and services of three namespaces may have,
// in addition to what the namespace of the previous attacks has, and then makes the pods that run larger.
func severalNamespaces(n *hostileNode, a *harness.Admin) {
	const namespaces, pods, objectPods, servicesEach = 3, 11, 3, 4
	var running []string
	for i := range namespaces {
		ns := fmt.Sprintf("tenant-%d", i)
		a.Create("apiVersion: v1\nkind: Namespace\nmetadata: {name: " + ns + "}\n---\n" +
			"apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: default, namespace: " + ns + "}\n---\n" +
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kube-root-ca.crt, namespace: " + ns +
			"}\ndata: {ca.crt: the-root}\n")
		for v := range servicesEach {
			ports := make([]string, 8000)
			for p := range ports {
				ports[p] = fmt.Sprintf("{name: p%d, port: %d}", p, p+1)
			}
			a.Create(fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: s%d, namespace: %s}\nspec: {ports: [%s]}\n", v,
				ns, strings.Join(ports, ", ")))
		}
		env := "env:\n"
		for v := range 10 {
			env += fmt.Sprintf("- {name: V%d, value: %q}\n", v, strings.Repeat("v", 100_000))
		}
		for v := range pods {
			pod := n.ClusterPod(fmt.Sprintf("%s-large%d", ns, v), testbed.BusyboxImage,
				"hostNetwork: true\nenableServiceLinks: false\n", env)
			a.Create(strings.Replace(pod, "metadata: {",
				fmt.Sprintf("metadata: {namespace: %s, annotations: {a: %q}, ", ns, strings.Repeat("a", 200_000)), 1))
		}
		for v := range objectPods {
			createObjectsPod(n, a, ns, fmt.Sprintf("%s-objects%d", ns, v), 6)
		}
		running = append(running, ns+"-large0")
	}
	for _, name := range running {
		n.AwaitRunning(name)
	}
	n.AwaitRunning("tenant-0-objects0")
	for i := range namespaces {
		ns := fmt.Sprintf("tenant-%d", i)
		n.Await("the last pod of a namespace is rejected", func() error {
			var pod v1.Pod
			if err := a.Get(&pod, "pod", "-n", ns, n.PodName(fmt.Sprintf("%s-large%d", ns, pods-1))); err != nil {
				return err
			}
			if pod.Status.Reason != "PodsTooLarge" {
				return fmt.Errorf("%s %s", pod.Status.Phase, pod.Status.Reason)
			}
			return nil
		})
	}
	n.check("several namespaces, running")
	larger := a.File(
		fmt.Sprintf(`{"metadata": {"annotations": {"a": %q}}, "spec": {"containers": [{"name": "main", "image": %q}]}}`,
			strings.Repeat("b", 230_000), testbed.BusyboxImage+strings.Repeat("x", 150_000)))
	var before []harness.Instance
	for i, name := range running[:namespaces-1] { // The last one may have some space left.
		before = append(before, n.AwaitRunning(name))
		a.Must("patch", "pod", "-n", fmt.Sprintf("tenant-%d", i), n.PodName(name), "--patch-file", larger)
	}
	for i, name := range running[:namespaces-1] {
		n.Await("a change without space is reported", func() error {
			events, err := a.Kubectl("get", "events", "-n", fmt.Sprintf("tenant-%d", i))
			if err == nil && !strings.Contains(events, "the change has no effect here") {
				err = fmt.Errorf("%s", events)
			}
			return err
		})
		n.MustStillRun(name, before[i])
	}
}
