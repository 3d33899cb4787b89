package volume

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
)

// file is one file of a volume that is made from objects.
type file struct {
	data []byte
	mode uint32
	// uid is the owner; nil is root.
	uid *int64
}

// payload maps paths in such a volume to files.
type payload map[string]file

// ErrMissing is the error for a referenced object that does not exist (yet): the pod
// waits for it.
var ErrMissing = errors.New("not found")

// missing returns the error for a missing object.
func (s *setup) missing(ref manifest.ObjectRef, canBeOptional bool) error {
	why, remedy := s.req.Objects.Missing(ref)
	return fmt.Errorf("%s %w: it %s; %s", ref, ErrMissing, why, orOptional(remedy, canBeOptional))
}

// missingKey returns the error for a missing key of an object, which has others.
func (s *setup) missingKey(ref manifest.ObjectRef, key, others string) error {
	_, remedy := s.req.Objects.Missing(ref)
	return fmt.Errorf("key %q of %s%s %w; %s", key, ref, others, ErrMissing, orOptional(remedy, true))
}

func orOptional(remedy string, canBeOptional bool) string {
	if canBeOptional {
		return remedy + ", or set optional: true"
	}
	return remedy
}

// resolvePayload returns the files of a volume. It does no I/O.
func (s *setup) resolvePayload(src *v1.VolumeSource) (payload, error) {
	files := payload{}
	switch {
	case src.ConfigMap != nil:
		m := src.ConfigMap
		return files, s.addConfigMap(files, m.Name, m.Items, isOptional(m.Optional), defaultedMode(m.DefaultMode))
	case src.Secret != nil:
		m := src.Secret
		return files, s.addSecret(files, m.SecretName, m.Items, isOptional(m.Optional), defaultedMode(m.DefaultMode))
	case src.DownwardAPI != nil:
		return files, s.addDownward(files, src.DownwardAPI.Items, defaultedMode(src.DownwardAPI.DefaultMode))
	case src.Projected != nil:
		defaultMode := defaultedMode(src.Projected.DefaultMode)
		for i := range src.Projected.Sources {
			if err := s.addProjection(files, &src.Projected.Sources[i], defaultMode); err != nil {
				return nil, fmt.Errorf("sources[%d]: %w", i, err)
			}
		}
	}
	return files, nil
}

// addProjection adds one source of a projected volume. Of two sources with the same
// file the later one wins, as in the kubelet.
func (s *setup) addProjection(files payload, src *v1.VolumeProjection, defaultMode uint32) error {
	switch {
	case src.ConfigMap != nil:
		return s.addConfigMap(files, src.ConfigMap.Name, src.ConfigMap.Items, isOptional(src.ConfigMap.Optional), defaultMode)
	case src.Secret != nil:
		return s.addSecret(files, src.Secret.Name, src.Secret.Items, isOptional(src.Secret.Optional), defaultMode)
	case src.DownwardAPI != nil:
		return s.addDownward(files, src.DownwardAPI.Items, defaultMode)
	case src.ServiceAccountToken != nil && s.req.Token != nil:
		return s.addToken(files, src.ServiceAccountToken, defaultMode)
	}
	return errors.New("unsupported without a cluster; only configMap, secret and downwardAPI can be projected")
}

func (s *setup) addConfigMap(files payload, name string, items []v1.KeyToPath, optional bool,
	defaultMode uint32) error {
	ref := manifest.ObjectRef{Kind: manifest.KindConfigMap, Namespace: s.req.Pod.Namespace, Name: name}
	m, ok := s.req.Objects.ConfigMap(s.req.Pod.Namespace, name)
	if !ok {
		if optional {
			return nil
		}
		return s.missing(ref, true)
	}
	data := maps.Clone(m.BinaryData)
	if data == nil {
		data = make(map[string][]byte, len(m.Data))
	}
	for key, text := range m.Data {
		data[key] = []byte(text)
	}
	return s.addKeys(files, ref, data, items, optional, defaultMode)
}

func (s *setup) addSecret(files payload, name string, items []v1.KeyToPath, optional bool, defaultMode uint32) error {
	ref := manifest.ObjectRef{Kind: manifest.KindSecret, Namespace: s.req.Pod.Namespace, Name: name}
	m, ok := s.req.Objects.Secret(s.req.Pod.Namespace, name)
	if !ok {
		if optional {
			return nil
		}
		return s.missing(ref, true)
	}
	return s.addKeys(files, ref, m.Data, items, optional, defaultMode)
}

// addKeys adds the keys of an object: the given ones, or all.
func (s *setup) addKeys(files payload, ref manifest.ObjectRef, data map[string][]byte, items []v1.KeyToPath,
	optional bool, defaultMode uint32) error {
	if len(items) == 0 {
		for key, value := range data {
			files[key] = file{data: value, mode: defaultMode}
		}
		return nil
	}
	for _, item := range items {
		value, ok := data[item.Key]
		if !ok {
			if optional {
				continue
			}
			// Readers of events must not see the keys of a Secret.
			others := ""
			if ref.Kind != manifest.KindSecret {
				others = fmt.Sprintf(" (which has %q)", slices.Sorted(maps.Keys(data)))
			}
			return s.missingKey(ref, item.Key, others)
		}
		files[item.Path] = file{data: value, mode: itemMode(item.Mode, defaultMode)}
	}
	return nil
}

func (s *setup) addDownward(files payload, items []v1.DownwardAPIVolumeFile, defaultMode uint32) error {
	for i := range items {
		text, err := s.req.Downward(&items[i])
		if err != nil {
			return fmt.Errorf("file %s: %w", items[i].Path, err)
		}
		files[items[i].Path] = file{data: []byte(text), mode: itemMode(items[i].Mode, defaultMode)}
	}
	return nil
}

// tokenMode is the mode of a token whose reader is known; it is the kubelet's.
const tokenMode = 0o600

// addToken adds a token. If all containers run as one user, the token belongs to that
// user; if the pod has a group, to that group. Then no others can read it.
func (s *setup) addToken(files payload, src *v1.ServiceAccountTokenProjection, defaultMode uint32) error {
	text, err := s.req.Token(src)
	if err != nil {
		return fmt.Errorf("token of ServiceAccount %s/%s %w: %w", s.req.Pod.Namespace, s.req.Pod.Spec.ServiceAccountName,
			ErrMissing, err)
	}
	token := file{data: []byte(text), mode: defaultMode, uid: commonUser(&s.req.Pod.Spec)}
	if token.uid != nil || s.group.GID != nil {
		token.mode = tokenMode
	}
	files[src.Path] = token
	return nil
}

// commonUser returns the user that all containers run as, nil if they differ or
// state none.
func commonUser(spec *v1.PodSpec) *int64 {
	var general *int64
	if spec.SecurityContext != nil {
		general = spec.SecurityContext.RunAsUser
	}
	var users []*int64
	add := func(c *v1.SecurityContext) {
		if c != nil && c.RunAsUser != nil {
			users = append(users, c.RunAsUser)
		} else {
			users = append(users, general)
		}
	}
	for c := range podinfo.EachContainer(spec, podinfo.AllContainers) {
		add(c.SecurityContext)
	}
	for _, user := range users {
		if user == nil || *user != *users[0] {
			return nil
		}
	}
	return users[0]
}

// allowsMissing reports whether objects of a volume are optional.
func allowsMissing(src *v1.VolumeSource) bool {
	switch {
	case src.ConfigMap != nil:
		return isOptional(src.ConfigMap.Optional)
	case src.Secret != nil:
		return isOptional(src.Secret.Optional)
	case src.Projected != nil:
		return slices.ContainsFunc(src.Projected.Sources, func(p v1.VolumeProjection) bool {
			return p.ConfigMap != nil && isOptional(p.ConfigMap.Optional) || p.Secret != nil && isOptional(p.Secret.Optional)
		})
	}
	return false
}

func isOptional(o *bool) bool { return o != nil && *o }

// defaultedMode returns a default mode, which defaulting has set already.
func defaultedMode(m *int32) uint32 { return itemMode(m, 0o644) }

func itemMode(m *int32, defaultMode uint32) uint32 {
	if m == nil {
		return defaultMode
	}
	return uint32(*m)
}
