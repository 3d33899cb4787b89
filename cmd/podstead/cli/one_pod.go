package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
)

// podKind and eventKind are the kinds of most commands.
func podKind() *kind   { return mustKind("pods") }
func eventKind() *kind { return mustKind("events") }

func mustKind(name string) *kind {
	all := kinds()
	return all[slices.IndexFunc(all, func(k *kind) bool { return k.name == name })]
}

// onePod is the pod that a name means: as in its manifest, with the suffix
// -NODE, or pod/NAME.
func onePod(cmd *cobra.Command, c *client, namespace, name string) (*v1.Pod, error) {
	name = bareName(name)
	q := query{kind: podKind(), namespace: namespace, names: []string{name}}
	l, err := q.list(cmd.Context(), c)
	if err != nil {
		return nil, err
	}
	switch len(l.objects) {
	case 0:
		// A manifest at fault may be why.
		if err := printFaults(cmd, c); err != nil {
			return nil, err
		}
		hint := q.near(cmd.Context(), c, name)
		if hint == "" {
			hint = "; podstead get pods lists them"
		}
		return nil, fmt.Errorf("no pod %q%s%s", name, inNamespace(namespace), hint)
	case 1:
		var pod v1.Pod
		return &pod, l.objects[0].into(&pod)
	}
	one, other := l.objects[0], l.objects[1]
	if one.Namespace == other.Namespace {
		return nil, fmt.Errorf("pod %q is %s or %s; name it in full", name, one.Name, other.Name)
	}
	return nil, fmt.Errorf("pod %q is in namespace %s and in %s; choose one with --namespace", name, one.Namespace, other.Namespace)
}

// bareName takes the kind off a pod's name, as -o name prints it.
func bareName(n string) string {
	return strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(n, "pod/"), "pods/"), "po/")
}

// allContainers are a pod's containers of every kind, in the order in which they
// start; ephemeral ones have the same fields.
func allContainers(p *v1.Pod) []v1.Container {
	return slices.Concat(p.Spec.InitContainers, p.Spec.Containers, ephemeralContainers(p))
}

func ephemeralContainers(p *v1.Pod) []v1.Container {
	var list []v1.Container
	for _, c := range p.Spec.EphemeralContainers {
		list = append(list, v1.Container(c.EphemeralContainerCommon))
	}
	return list
}
