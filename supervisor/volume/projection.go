package volume

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// file is one file of a volume that is made of objects.
type file struct {
	data []byte
	mode uint32
}

// payload holds the files of such a volume by their paths in it.
type payload map[string]file

// ErrMissing is a reference to something that is not there (yet): a pod waits
// for it.
var ErrMissing = errors.New("not there")

// missing names an object or key that is not there and what to do.
func missing(what string, canDoWithout bool) error {
	hint := "add it to the manifests"
	if canDoWithout {
		hint += ", or set optional: true"
	}
	return fmt.Errorf("%s is %w; %s", what, ErrMissing, hint)
}

// payloadOf resolves what a volume is made of. It does no I/O.
func (s *setup) payloadOf(src *v1.VolumeSource) (payload, error) {
	files := payload{}
	switch {
	case src.ConfigMap != nil:
		m := src.ConfigMap
		return files, s.addConfigMap(files, m.Name, m.Items, optional(m.Optional), mode(m.DefaultMode))
	case src.Secret != nil:
		m := src.Secret
		return files, s.addSecret(files, m.SecretName, m.Items, optional(m.Optional), mode(m.DefaultMode))
	case src.DownwardAPI != nil:
		return files, s.addDownward(files, src.DownwardAPI.Items, mode(src.DownwardAPI.DefaultMode))
	case src.Projected != nil:
		usual := mode(src.Projected.DefaultMode)
		for i := range src.Projected.Sources {
			if err := s.addProjection(files, &src.Projected.Sources[i], usual); err != nil {
				return nil, fmt.Errorf("sources[%d]: %w", i, err)
			}
		}
	}
	return files, nil
}

// addProjection adds one source of a projected volume. Of two sources with the
// same file the later one wins, as with the kubelet.
func (s *setup) addProjection(files payload, src *v1.VolumeProjection, usual uint32) error {
	switch {
	case src.ConfigMap != nil:
		return s.addConfigMap(files, src.ConfigMap.Name, src.ConfigMap.Items, optional(src.ConfigMap.Optional), usual)
	case src.Secret != nil:
		return s.addSecret(files, src.Secret.Name, src.Secret.Items, optional(src.Secret.Optional), usual)
	case src.DownwardAPI != nil:
		return s.addDownward(files, src.DownwardAPI.Items, usual)
	}
	return errors.New("needs a cluster; only configMap, secret and downwardAPI can be projected here")
}

func (s *setup) addConfigMap(files payload, name string, items []v1.KeyToPath, optional bool, usual uint32) error {
	what := fmt.Sprintf("ConfigMap %s/%s", s.req.Pod.Namespace, name)
	m, ok := s.req.Objects.ConfigMap(s.req.Pod.Namespace, name)
	if !ok {
		if optional {
			return nil
		}
		return missing(what, true)
	}
	data := maps.Clone(m.BinaryData)
	if data == nil {
		data = make(map[string][]byte, len(m.Data))
	}
	for key, text := range m.Data {
		data[key] = []byte(text)
	}
	return addKeys(files, what, data, items, optional, usual)
}

func (s *setup) addSecret(files payload, name string, items []v1.KeyToPath, optional bool, usual uint32) error {
	what := fmt.Sprintf("Secret %s/%s", s.req.Pod.Namespace, name)
	m, ok := s.req.Objects.Secret(s.req.Pod.Namespace, name)
	if !ok {
		if optional {
			return nil
		}
		return missing(what, true)
	}
	return addKeys(files, what, m.Data, items, optional, usual)
}

// addKeys adds the keys of an object: the given ones, or all.
func addKeys(files payload, what string, data map[string][]byte, items []v1.KeyToPath, optional bool, usual uint32) error {
	if len(items) == 0 {
		for key, value := range data {
			files[key] = file{value, usual}
		}
		return nil
	}
	for _, item := range items {
		value, ok := data[item.Key]
		if !ok {
			if optional {
				continue
			}
			return missing(fmt.Sprintf("key %q of %s (which has %q)", item.Key, what, slices.Sorted(maps.Keys(data))), true)
		}
		files[item.Path] = file{value, itemMode(item.Mode, usual)}
	}
	return nil
}

func (s *setup) addDownward(files payload, items []v1.DownwardAPIVolumeFile, usual uint32) error {
	for i := range items {
		text, err := s.req.Downward(&items[i])
		if err != nil {
			return fmt.Errorf("file %s: %w", items[i].Path, err)
		}
		files[items[i].Path] = file{[]byte(text), itemMode(items[i].Mode, usual)}
	}
	return nil
}

// mayLack reports whether files of a volume may be missing without a fault.
func mayLack(src *v1.VolumeSource) bool {
	switch {
	case src.ConfigMap != nil:
		return optional(src.ConfigMap.Optional)
	case src.Secret != nil:
		return optional(src.Secret.Optional)
	case src.Projected != nil:
		return slices.ContainsFunc(src.Projected.Sources, func(p v1.VolumeProjection) bool {
			return p.ConfigMap != nil && optional(p.ConfigMap.Optional) || p.Secret != nil && optional(p.Secret.Optional)
		})
	}
	return false
}

func optional(o *bool) bool { return o != nil && *o }

// mode is a default mode, which the manifest's defaults have filled in.
func mode(m *int32) uint32 { return itemMode(m, 0o644) }

func itemMode(m *int32, usual uint32) uint32 {
	if m == nil {
		return usual
	}
	return uint32(*m)
}
