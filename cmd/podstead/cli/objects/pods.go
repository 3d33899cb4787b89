package objects

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cmd/podstead/cli/client"
)

// podKind and eventKind are the kinds of most commands.
func PodKind() *Kind   { return MustKind("pods") }
func EventKind() *Kind { return MustKind("events") }

// onePod is the pod that a name means: as in its manifest, with the suffix
// -NODE, or pod/NAME.
func FindPod(ctx context.Context, c *client.Client, namespace, name string, warnings io.Writer) (*v1.Pod, error) {
	name = TrimPodPrefix(name)
	q := Query{Kind: PodKind(), Namespace: namespace, Names: []string{name}}
	l, err := q.List(ctx, c)
	if err != nil {
		return nil, err
	}
	switch len(l.Objects) {
	case 0:
		// A manifest at fault may be why.
		if err := PrintFaults(ctx, c, warnings); err != nil {
			return nil, err
		}
		hint := q.Suggestion(ctx, c, name)
		if hint == "" {
			hint = "; podstead get pods lists them"
		}
		return nil, fmt.Errorf("no pod %q%s%s", name, InNamespace(namespace), hint)
	case 1:
		var pod v1.Pod
		return &pod, l.Objects[0].Decode(&pod)
	}
	one, other := l.Objects[0], l.Objects[1]
	if one.Namespace == other.Namespace {
		return nil, fmt.Errorf("pod %q is %s or %s; name it in full", name, one.Name, other.Name)
	}
	return nil, fmt.Errorf("pod %q is in namespace %s and in %s; choose one with --namespace", name, one.Namespace, other.Namespace)
}

// bareName takes the kind off a pod's name, as -o name prints it.
func TrimPodPrefix(n string) string {
	return strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(n, "pod/"), "pods/"), "po/")
}

// allContainers are a pod's containers of every kind, in the order in which they
// start; ephemeral ones have the same fields.
func AllContainers(p *v1.Pod) []v1.Container {
	return slices.Concat(p.Spec.InitContainers, p.Spec.Containers, EphemeralContainers(p))
}

func EphemeralContainers(p *v1.Pod) []v1.Container {
	var list []v1.Container
	for _, c := range p.Spec.EphemeralContainers {
		list = append(list, v1.Container(c.EphemeralContainerCommon))
	}
	return list
}

// containerOf is the container of this name, which is there.
func FindContainer(pod *v1.Pod, name string) v1.Container {
	for _, c := range AllContainers(pod) {
		if c.Name == name {
			return c
		}
	}
	return v1.Container{}
}

func DecodePod(o *Object) (*v1.Pod, error) {
	if o == nil {
		return nil, nil
	}
	var p v1.Pod
	if err := o.Decode(&p); err != nil {
		return nil, fmt.Errorf("cannot read a pod that podstead sent: %w", err)
	}
	return &p, nil
}

// defaultContainer is the annotation by which a pod says which container is meant.
const DefaultContainerAnnotation = "kubectl.kubernetes.io/default-container"

// chooseContainer is the container that is meant.
func ChooseContainer(pod *v1.Pod, name string) (string, error) {
	var regular, all []string
	for _, c := range pod.Spec.Containers {
		regular = append(regular, c.Name)
	}
	for _, c := range AllContainers(pod) {
		all = append(all, c.Name)
	}
	if name == "" {
		name = pod.Annotations[DefaultContainerAnnotation]
	}
	if name == "" && len(regular) == 1 {
		return regular[0], nil
	}
	for _, n := range all {
		if n == name {
			return n, nil
		}
	}
	if name == "" {
		return "", fmt.Errorf("pod %q has several containers; choose one of %s with --container", pod.Name, strings.Join(all, ", "))
	}
	return "", fmt.Errorf("pod %q has no container %q; choose one of %s with --container", pod.Name, name, strings.Join(all, ", "))
}
