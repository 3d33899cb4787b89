package objects

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/api/client"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// PodKind returns the kind of pods.
func PodKind() *Kind { return MustKind("pods") }

// EventKind returns the kind of events.
func EventKind() *Kind { return MustKind("events") }

// FindPod returns the pod of a name: the name in its manifest, that name with the suffix
// -NODE, or either after "pod/". If there is none, faults of manifests, which may be the
// cause, are printed to warnings.
func FindPod(ctx context.Context, c *client.Client, namespace, name string, warnings io.Writer) (*v1.Pod, error) {
	name = TrimPodPrefix(name)
	q := Query{Kind: PodKind(), Namespace: namespace, Names: []string{name}}
	l, err := q.List(ctx, c)
	if err != nil {
		return nil, err
	}
	switch len(l.Objects) {
	case 0:
		if err := PrintFaults(ctx, c, warnings); err != nil {
			return nil, err
		}
		hint := q.Suggestion(ctx, c, name)
		if hint == "" {
			hint = "; list pods with podstead get pods"
		}
		return nil, fmt.Errorf("pod %q not found%s%s", name, InNamespace(namespace), hint)
	case 1:
		var pod v1.Pod
		return &pod, l.Objects[0].Decode(&pod)
	}
	one, other := l.Objects[0], l.Objects[1]
	if one.Namespace == other.Namespace {
		return nil, fmt.Errorf("pod name %q is ambiguous (%s, %s); use the full name", name, one.Name, other.Name)
	}
	return nil, fmt.Errorf("pod %q exists in namespaces %s and %s; select one with --namespace", name, one.Namespace,
		other.Namespace)
}

// TrimPodPrefix removes the type before a pod's name, as -o name prints it.
func TrimPodPrefix(n string) string {
	return strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(n, "pod/"), "pods/"), "po/")
}

// ContainerNames returns the names of a pod's containers of the given kinds.
func ContainerNames(pod *v1.Pod, kinds podinfo.ContainerKinds) []string {
	var names []string
	for c := range podinfo.EachContainer(&pod.Spec, kinds) {
		names = append(names, c.Name)
	}
	return names
}

// DecodePod decodes a pod; it returns nil for nil.
func DecodePod(o *Object) (*v1.Pod, error) {
	if o == nil {
		return nil, nil
	}
	var p v1.Pod
	if err := o.Decode(&p); err != nil {
		return nil, err
	}
	return &p, nil
}

// DefaultContainerAnnotation is the annotation that selects the container of kubectl logs
// and exec.
const DefaultContainerAnnotation = "kubectl.kubernetes.io/default-container"

// ChooseContainer returns the container that a command uses: the given one, that of the
// annotation, or the only one.
func ChooseContainer(pod *v1.Pod, name string) (string, error) {
	all := ContainerNames(pod, podinfo.AllContainers)
	if name == "" {
		name = pod.Annotations[DefaultContainerAnnotation]
	}
	if name == "" && len(pod.Spec.Containers) == 1 {
		return pod.Spec.Containers[0].Name, nil
	}
	if slices.Contains(all, name) {
		return name, nil
	}
	if name == "" {
		return "", fmt.Errorf("a container name must be specified for pod %q; choose one of %s with --container", pod.Name,
			strings.Join(all, ", "))
	}
	return "", fmt.Errorf("container %q not found in pod %q; choose one of %s with --container", name, pod.Name,
		strings.Join(all, ", "))
}
