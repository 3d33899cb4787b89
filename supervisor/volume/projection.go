package volume

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/manifest"
)

// file is one file of a volume that is made of objects.
type file struct {
	data []byte
	mode uint32
	// uid is who owns it; nil is root.
	uid *int64
}

// payload holds the files of such a volume by their paths in it.
type payload map[string]file

// ErrMissing is a reference to something that is not there (yet): a pod waits
// for it.
var ErrMissing = errors.New("not there")

// missing names an object, or a key of it, that is not there and what to do.
func (s *setup) missing(ref manifest.ObjectRef, what string, canDoWithout bool) error {
	_, hint := s.req.Objects.Missing(ref)
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
	case src.ServiceAccountToken != nil && s.req.Token != nil:
		return s.addToken(files, src.ServiceAccountToken, usual)
	}
	return errors.New("needs a cluster; only configMap, secret and downwardAPI can be projected here")
}

func (s *setup) addConfigMap(files payload, name string, items []v1.KeyToPath, optional bool, usual uint32) error {
	ref := manifest.ObjectRef{Kind: manifest.KindConfigMap, Namespace: s.req.Pod.Namespace, Name: name}
	m, ok := s.req.Objects.ConfigMap(s.req.Pod.Namespace, name)
	if !ok {
		if optional {
			return nil
		}
		return s.missing(ref, ref.String(), true)
	}
	data := maps.Clone(m.BinaryData)
	if data == nil {
		data = make(map[string][]byte, len(m.Data))
	}
	for key, text := range m.Data {
		data[key] = []byte(text)
	}
	return s.addKeys(files, ref, data, items, optional, usual)
}

func (s *setup) addSecret(files payload, name string, items []v1.KeyToPath, optional bool, usual uint32) error {
	ref := manifest.ObjectRef{Kind: manifest.KindSecret, Namespace: s.req.Pod.Namespace, Name: name}
	m, ok := s.req.Objects.Secret(s.req.Pod.Namespace, name)
	if !ok {
		if optional {
			return nil
		}
		return s.missing(ref, ref.String(), true)
	}
	return s.addKeys(files, ref, m.Data, items, optional, usual)
}

// addKeys adds the keys of an object: the given ones, or all.
func (s *setup) addKeys(files payload, ref manifest.ObjectRef, data map[string][]byte, items []v1.KeyToPath, optional bool, usual uint32) error {
	if len(items) == 0 {
		for key, value := range data {
			files[key] = file{data: value, mode: usual}
		}
		return nil
	}
	for _, item := range items {
		value, ok := data[item.Key]
		if !ok {
			if optional {
				continue
			}
			return s.missing(ref, fmt.Sprintf("key %q of %s (which has %q)", item.Key, ref, slices.Sorted(maps.Keys(data))), true)
		}
		files[item.Path] = file{data: value, mode: itemMode(item.Mode, usual)}
	}
	return nil
}

func (s *setup) addDownward(files payload, items []v1.DownwardAPIVolumeFile, usual uint32) error {
	for i := range items {
		text, err := s.req.Downward(&items[i])
		if err != nil {
			return fmt.Errorf("file %s: %w", items[i].Path, err)
		}
		files[items[i].Path] = file{data: []byte(text), mode: itemMode(items[i].Mode, usual)}
	}
	return nil
}

// tokenMode is a token's once it is known who is to read it, as the kubelet's.
const tokenMode = 0o600

// addToken adds a token. If all containers run as one user it is that user's, and
// if the pod has a group its; nobody else reads it then.
func (s *setup) addToken(files payload, src *v1.ServiceAccountTokenProjection, usual uint32) error {
	text, err := s.req.Token(src)
	if err != nil {
		return fmt.Errorf("a token of ServiceAccount %s/%s is %w: %w", s.req.Pod.Namespace, s.req.Pod.Spec.ServiceAccountName, ErrMissing, err)
	}
	token := file{data: []byte(text), mode: usual, uid: onlyUser(&s.req.Pod.Spec)}
	if token.uid != nil || s.owner.gid != nil {
		token.mode = tokenMode
	}
	files[src.Path] = token
	return nil
}

// onlyUser is the user that all containers are to run as, nil if there is none.
func onlyUser(spec *v1.PodSpec) *int64 {
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
	for i := range spec.InitContainers {
		add(spec.InitContainers[i].SecurityContext)
	}
	for i := range spec.Containers {
		add(spec.Containers[i].SecurityContext)
	}
	for i := range spec.EphemeralContainers {
		add(spec.EphemeralContainers[i].SecurityContext)
	}
	for _, user := range users {
		if user == nil || *user != *users[0] {
			return nil
		}
	}
	return users[0]
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
