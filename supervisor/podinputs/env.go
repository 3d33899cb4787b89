package podinputs

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/manifest"
)

// envInput holds the values from which the environment variables of a pod's
// containers are made.
type envInput struct {
	pod     *v1.Pod
	objects Objects
	// services are those for which the pod gets variables.
	services []*v1.Service
	// allocatable are the node's resources for pods.
	allocatable v1.ResourceList
	// hostIPs are the node's addresses, podIPs the pod's, the primary one first.
	hostIPs, podIPs []string
	// openFile opens a file in a volume of the pod.
	openFile func(volume, path string) (io.ReadCloser, error)
}

// missingObjectsError names objects that a container refers to and that do not
// exist. Their creation notifies the pod's worker.
type missingObjectsError struct{ what []string }

func (e *missingObjectsError) Error() string { return strings.Join(e.what, "; ") }

// Is reports that a retry before the objects exist is of no use.
func (e *missingObjectsError) Is(target error) bool { return target == cri.ErrAwaited }

// resolveEnv returns the environment variables of a container: those of services,
// then those of envFrom in order, then those of env in order, each of which can refer
// to the ones before it. A later variable of the same name replaces the value and
// keeps the position of the first, so that the order is stable; the kubelet's is
// random. The error names everything that is missing.
func resolveEnv(c *v1.Container, in envInput) ([]cri.EnvVar, error) {
	b := &envBuilder{envInput: in, container: c, values: map[string]string{}}
	for _, variable := range serviceEnv(in.services) {
		b.set(variable.Name, variable.Value)
	}
	for i := range c.EnvFrom {
		b.addAll(fmt.Sprintf("envFrom[%d]", i), &c.EnvFrom[i])
	}
	for i := range c.Env {
		if b.size > cri.MaxEnvironment {
			break
		}
		variable := &c.Env[i]
		if variable.ValueFrom == nil || variable.Value != "" {
			value, err := cri.Expand(variable.Value, b.values)
			if err != nil {
				// Those that refer to this one would be too long as well.
				b.fail("env "+variable.Name, err)
				break
			}
			b.set(variable.Name, value)
			continue
		}
		value, ok, err := b.valueFrom(variable.ValueFrom)
		if err != nil {
			b.fail(fmt.Sprintf("env %s", variable.Name), err)
		} else if ok {
			b.set(variable.Name, value)
		}
	}
	if len(b.missing) > 0 {
		return nil, &missingObjectsError{what: b.missing}
	}
	return b.list(), errors.Join(b.errs...)
}

// LiteralEnv returns the variables of a container whose values are in its manifest.
// Only these are expanded in the commands of probes, as in the kubelet.
func LiteralEnv(c *v1.Container) map[string]string {
	values := map[string]string{}
	size := 0
	for i := range c.Env {
		if c.Env[i].ValueFrom == nil {
			value, err := cri.Expand(c.Env[i].Value, values)
			if size += len(value); err != nil || size > cri.MaxEnvironment {
				// The container does not start with it.
				break
			}
			values[c.Env[i].Name] = value
		}
	}
	return values
}

// envBuilder collects the environment variables of one container.
type envBuilder struct {
	envInput
	container *v1.Container
	names     []string
	values    map[string]string
	// size is the length of the names and values set, in bytes.
	size    int
	missing []string
	errs    []error
}

func (b *envBuilder) list() []cri.EnvVar {
	env := make([]cri.EnvVar, 0, len(b.names))
	for _, name := range b.names {
		env = append(env, cri.EnvVar{Name: name, Value: b.values[name]})
	}
	return env
}

func (b *envBuilder) set(name, value string) {
	if strings.ContainsRune(name, 0) || strings.ContainsRune(value, 0) {
		// The kernel would truncate it there.
		b.fail("variable "+name, errors.New("contains a NUL byte, which an environment variable cannot hold; mount it as a "+
			"file of a volume instead"))
		return
	}
	if b.size > cri.MaxEnvironment {
		return
	}
	if len(value) > cri.MaxExpanded {
		b.fail("variable "+name, fmt.Errorf("is %d bytes long; Linux permits at most 128 KiB; mount it as a file of a "+
			"volume instead", len(value)))
		return
	}
	before, replaces := b.values[name]
	if !replaces {
		b.names = append(b.names, name)
		b.size += len(name)
	}
	if b.size += len(value) - len(before); b.size > cri.MaxEnvironment {
		b.errs = append(b.errs, cri.ErrEnvironment)
		return
	}
	b.values[name] = value
}

func (b *envBuilder) fail(where string, err error) {
	var missing *missingObjectsError
	if errors.As(err, &missing) {
		for _, what := range missing.what {
			b.missing = append(b.missing, where+": "+what)
		}
		return
	}
	b.errs = append(b.errs, fmt.Errorf("%s: %w", where, err))
}

// addAll adds all entries of an object as variables. Any key is a valid name of a
// variable, as in the kubelet.
func (b *envBuilder) addAll(where string, from *v1.EnvFromSource) {
	switch {
	case from.ConfigMapRef != nil:
		configMap, err := b.configMap(from.ConfigMapRef.Name, from.ConfigMapRef.Optional)
		if err != nil || configMap == nil {
			b.failIf(where, err)
			return
		}
		for _, key := range slices.Sorted(maps.Keys(configMap.Data)) {
			b.set(from.Prefix+key, configMap.Data[key])
		}
	case from.SecretRef != nil:
		secret, err := b.secret(from.SecretRef.Name, from.SecretRef.Optional)
		if err != nil || secret == nil {
			b.failIf(where, err)
			return
		}
		for _, key := range slices.Sorted(maps.Keys(secret.Data)) {
			b.set(from.Prefix+key, string(secret.Data[key]))
		}
	}
}

func (b *envBuilder) failIf(where string, err error) {
	if err != nil {
		b.fail(where, err)
	}
}

// valueFrom returns the value of a variable with a source; false if it is not set.
func (b *envBuilder) valueFrom(source *v1.EnvVarSource) (string, bool, error) {
	switch {
	case source.FieldRef != nil:
		value, err := b.field(source.FieldRef.FieldPath)
		return value, true, err
	case source.ResourceFieldRef != nil:
		value, err := b.resource(source.ResourceFieldRef)
		return value, true, err
	case source.ConfigMapKeyRef != nil:
		return b.configMapKey(source.ConfigMapKeyRef)
	case source.SecretKeyRef != nil:
		return b.secretKey(source.SecretKeyRef)
	case source.FileKeyRef != nil:
		return b.fileKey(source.FileKeyRef)
	}
	return "", true, nil
}

// configMap returns a ConfigMap, nil if it is optional and missing.
func (b *envBuilder) configMap(name string, optional *bool) (*v1.ConfigMap, error) {
	found, ok := b.objects.ConfigMap(b.pod.Namespace, name)
	return found, b.missingUnless(ok || isTrue(optional), manifest.KindConfigMap, name)
}

// secret returns a Secret, nil if it is optional and missing.
func (b *envBuilder) secret(name string, optional *bool) (*v1.Secret, error) {
	found, ok := b.objects.Secret(b.pod.Namespace, name)
	return found, b.missingUnless(ok || isTrue(optional), manifest.KindSecret, name)
}

func (b *envBuilder) missingUnless(ok bool, kind, name string) error {
	if ok {
		return nil
	}
	ref := manifest.ObjectRef{Kind: kind, Namespace: b.pod.Namespace, Name: name}
	why, _ := b.objects.Missing(ref)
	return &missingObjectsError{what: []string{ref.String() + " " + why}}
}

func (b *envBuilder) missingKey(kind, name, key string) error {
	return &missingObjectsError{what: []string{fmt.Sprintf("%s %s/%s has no key %q", kind, b.pod.Namespace, name, key)}}
}

func (b *envBuilder) configMapKey(ref *v1.ConfigMapKeySelector) (string, bool, error) {
	configMap, err := b.configMap(ref.Name, ref.Optional)
	if err != nil || configMap == nil {
		return "", false, err
	}
	value, ok := configMap.Data[ref.Key]
	if !ok && !isTrue(ref.Optional) {
		return "", false, b.missingKey(manifest.KindConfigMap, ref.Name, ref.Key)
	}
	return value, ok, nil
}

func (b *envBuilder) secretKey(ref *v1.SecretKeySelector) (string, bool, error) {
	secret, err := b.secret(ref.Name, ref.Optional)
	if err != nil || secret == nil {
		return "", false, err
	}
	value, ok := secret.Data[ref.Key]
	if !ok && !isTrue(ref.Optional) {
		return "", false, b.missingKey(manifest.KindSecret, ref.Name, ref.Key)
	}
	return string(value), ok, nil
}

func isTrue(flag *bool) bool { return flag != nil && *flag }
