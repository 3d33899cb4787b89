package volume

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func payloadFrom(t *testing.T, source string) (payload, error) {
	t.Helper()
	var src v1.VolumeSource
	if err := yaml.UnmarshalStrict([]byte(source), &src); err != nil {
		t.Fatal(err)
	}
	p := pod("u1")
	p.Namespace = "apps"
	s := &setup{req: &Request{
		Pod: p,
		Objects: fixed{
			configMaps: map[string]*v1.ConfigMap{
				"m": {Data: map[string]string{"a": "1", "b": "2"}, BinaryData: map[string][]byte{"c": {0}}}},
			secrets: map[string]*v1.Secret{"s": {Data: map[string][]byte{"key": []byte("x")}}},
		},
		Downward: func(item *v1.DownwardAPIVolumeFile) (string, error) { return item.FieldRef.FieldPath, nil },
	}}
	return s.resolvePayload(&src)
}

func TestPayload(t *testing.T) {
	for source, want := range map[string]string{
		`configMap: {name: m}`: "a=1 644, b=2 644, c=\x00 644",
		`configMap: {name: m, defaultMode: 0600, items: [{key: a, path: x/y, mode: 0400}, {key: b, path: b}]}`: "b=2 600, x/y=1 400",
		`configMap: {name: none, optional: true}`:                                                              "",
		`configMap: {name: m, optional: true, items: [{key: a, path: a}, {key: nokey, path: b}]}`:              "a=1 644",
		`secret: {secretName: s, defaultMode: 0400}`:                                                           "key=x 400",
		`secret: {secretName: none, optional: true}`:                                                           "",
		`downwardAPI: {items: [{path: nn, fieldRef: {fieldPath: metadata.name}}]}`:                             "nn=metadata.name 644",
		`projected: {defaultMode: 0440, sources: [{configMap: {name: m, items: [{key: a, path: one}]}}, {secret: {name: s}}, {downwardAPI: {items: [{path: nn, mode: 0444, fieldRef: {fieldPath: f}}]}}]}`: "key=x 440, nn=f 444, one=1 440",
		`projected: {sources: [{configMap: {name: m, items: [{key: a, path: x}]}}, {configMap: {name: m, items: [{key: b, path: x}]}}, {secret: {name: none, optional: true}}]}`:                           "x=2 644",
	} {
		files, err := payloadFrom(t, source)
		if err != nil {
			t.Errorf("%s: %v", source, err)
		}
		var got []string
		for _, name := range slices.Sorted(maps.Keys(files)) {
			got = append(got, name+"="+string(files[name].data)+" "+octal(files[name].mode))
		}
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("%s: %q, want %q", source, text, want)
		}
	}
}

func octal(mode uint32) string {
	return string([]byte{'0' + byte(mode>>6&7), '0' + byte(mode>>3&7), '0' + byte(mode&7)})
}

func TestPayloadNamesWhatIsMissing(t *testing.T) {
	for source, words := range map[string][]string{
		`configMap: {name: none}`:    {"ConfigMap apps/none", "optional: true"},
		`secret: {secretName: none}`: {"Secret apps/none"},
		`configMap: {name: m, items: [{key: nokey, path: b}]}`: {`key "nokey" of ConfigMap apps/m`,
			`["a" "b" "c"]`},
		`projected: {sources: [{downwardAPI: {}}, {secret: {name: none}}]}`: {"sources[1]", "Secret apps/none"},
	} {
		_, err := payloadFrom(t, source)
		if !errors.Is(err, ErrMissing) {
			t.Errorf("%s: %v, want ErrMissing", source, err)
			continue
		}
		for _, word := range words {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %v does not contain %s", source, err, word)
			}
		}
	}
	// Who may read events must not learn the keys of a Secret from them.
	if _, err := payloadFrom(t, `secret: {secretName: s, items: [{key: nokey, path: b}]}`); !errors.Is(err, ErrMissing) ||
		!strings.Contains(err.Error(), `key "nokey" of Secret apps/s not found`) || strings.Contains(err.Error(), `"key"`) {
		t.Errorf("a missing key of a Secret: %v", err)
	}
	if _, err := payloadFrom(t, `projected: {sources: [{serviceAccountToken: {path: t}}]}`); err == nil ||
		errors.Is(err, ErrMissing) {
		t.Errorf("a token: %v", err)
	}
}

// A token is readable only by the containers' user or group, if that is known.
func TestTokenIsForWhoReadsIt(t *testing.T) {
	one, two, group := int64(1000), int64(1001), int64(2000)
	as := func(user *int64) *v1.SecurityContext { return &v1.SecurityContext{RunAsUser: user} }
	source := &v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
		{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}},
	}}}
	for name, c := range map[string]struct {
		change func(*v1.PodSpec)
		mode   string
		uid    *int64
	}{
		"unknown user":   {func(*v1.PodSpec) {}, "644", nil},
		"the pod's user": {func(s *v1.PodSpec) { s.SecurityContext = &v1.PodSecurityContext{RunAsUser: &one} }, "600", &one},
		"the containers'": {func(s *v1.PodSpec) {
			s.InitContainers = []v1.Container{{SecurityContext: as(&one)}}
			s.Containers[0].SecurityContext = as(&one)
		}, "600", &one},
		"two users": {func(s *v1.PodSpec) {
			s.SecurityContext = &v1.PodSecurityContext{RunAsUser: &one}
			s.InitContainers = []v1.Container{{SecurityContext: as(&two)}}
		}, "644", nil},
		"one user unknown": {func(s *v1.PodSpec) { s.InitContainers = []v1.Container{{SecurityContext: as(&two)}} }, "644",
			nil},
		"a group": {func(s *v1.PodSpec) { s.SecurityContext = &v1.PodSecurityContext{FSGroup: &group} }, "600", nil},
	} {
		p := pod("u1")
		c.change(&p.Spec)
		s := &setup{group: groupOf(p),
			req: &Request{Pod: p, Token: func(*v1.ServiceAccountTokenProjection) (string, error) { return "secret", nil }}}
		files, err := s.resolvePayload(source)
		got := files["token"]
		if err != nil || string(got.data) != "secret" || octal(got.mode) != c.mode || (got.uid == nil) != (c.uid == nil) ||
			c.uid != nil && *got.uid != *c.uid {
			t.Errorf("%s: %+v, %v, want %s of %v", name, got, err, c.mode, c.uid)
		}
	}
	s := &setup{req: &Request{Pod: pod("u1"),
		Token: func(*v1.ServiceAccountTokenProjection) (string, error) { return "", errors.New("why") }}}
	if _, err := s.resolvePayload(source); !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "why") {
		t.Errorf("without a token: %v", err)
	}
}
