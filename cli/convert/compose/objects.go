package compose

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/cli/convert/docker"
	"github.com/podstead/podstead/cli/convert/podbuild"
	"github.com/podstead/podstead/cli/convert/report"
	"github.com/podstead/podstead/cli/convert/tree"
)

// objectKey is the key of the content of a config or a secret.
const objectKey = "content"

func (s *service) configs(n *tree.Node, f report.Field) { s.files("configs", n, f) }
func (s *service) secrets(n *tree.Node, f report.Field) { s.files("secrets", n, f) }

// files mounts the configs or the secrets of a service as files.
func (s *service) files(kind string, n *tree.Node, f report.Field) {
	for i, item := range listOf(n) {
		at := f.Index(i, item.Position)
		source := item.String()
		if item.Is(tree.Map) {
			source = item.Get("source").String()
		}
		target := item.Get("target").String()
		switch {
		case target == "" && kind == "secrets":
			target = "/run/secrets/" + source
		case target == "":
			target = "/" + source
		case !strings.HasPrefix(target, "/") && kind == "secrets":
			target = "/run/secrets/" + target
		case !strings.HasPrefix(target, "/"):
			target = "/" + target
		}
		for _, field := range fieldsOf(item) {
			if field.Key == "uid" || field.Key == "gid" {
				s.p.report.Lost(at.Child(field.Key, field.Position), "the file belongs to root", "make it readable with mode")
			}
		}
		var mode *int32
		if m := item.Get("mode"); !m.IsNull() {
			bits, err := strconv.ParseInt(strings.TrimPrefix(m.String(), "0o"), 8, 16)
			if err != nil || bits < 0 || bits > 0o777 {
				s.p.report.Error(at.Child("mode", m.Position), "is "+m.Describe(), "must be an octal number, such as 0440")
				continue
			}
			value := int32(bits)
			mode = &value
		}
		name, key, ok := s.p.object(s, kind, source, at)
		if !ok {
			continue
		}
		var volume v1.VolumeSource
		hint := "config-" + source
		if kind == "secrets" {
			hint = "secret-" + source
			volume.Secret = &v1.SecretVolumeSource{SecretName: name, DefaultMode: mode}
		} else {
			volume.ConfigMap = &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: name},
				DefaultMode: mode}
		}
		s.c.VolumeMounts = append(s.c.VolumeMounts,
			v1.VolumeMount{Name: s.b.AddVolume(hint, volume), MountPath: path.Clean(target), SubPath: key, ReadOnly: true})
	}
}

// object returns the name of the object of a config or secret, and its key. It creates the object
// next to the first pod that uses it.
func (p *project) object(s *service, kind, name string, f report.Field) (object, key string, ok bool) {
	declared := p.root.Get(kind).Get(name)
	if !declared.Is(tree.Map) {
		p.report.Error(f, fmt.Sprintf("%q is not declared", name), "add it under "+kind)
		return "", "", false
	}
	at := report.Field{At: declared.Position, Path: kind + "." + name}
	object = podbuild.Name(name)
	if external := declared.Get("external"); !external.IsNull() && external.String() != "false" {
		what := "ConfigMap"
		if kind == "secrets" {
			what = "Secret"
		}
		p.report.Lost(at, "its content is in docker", fmt.Sprintf("write a %s %s with the key %s", what, object, objectKey))
		return object, objectKey, true
	}
	content, found := p.content(declared, at)
	if !found {
		return "", "", false
	}
	if !p.objects[kind+" "+object] {
		p.objects[kind+" "+object] = true
		s.addObject(kind, object, objectKey, content, at)
	}
	return object, objectKey, true
}

// content returns the content of a config or secret.
func (p *project) content(declared *tree.Node, f report.Field) ([]byte, bool) {
	if file := declared.Get("file"); !file.IsNull() {
		at := f.Child("file", file.Position)
		data, err := p.host.ReadFile(p.host.Path(p.baseDir(file.File), file.String()))
		if err != nil {
			p.report.Error(at, file.String()+" "+err.Error(), "convert on the machine that has the file")
			return nil, false
		}
		return data, true
	}
	if variable := declared.Get("environment"); !variable.IsNull() {
		value, set := p.vars.lookup(variable.String())
		if !set {
			p.report.Error(f.Child("environment", variable.Position), "the variable "+variable.String()+" is not set",
				"set it in the environment or in .env")
		}
		return []byte(value), set
	}
	if content := declared.Get("content"); !content.IsNull() {
		return []byte(content.String()), true
	}
	p.report.Error(f, "has no content", "must have file, environment or content")
	return nil, false
}

// addObject adds a ConfigMap or a Secret with one file next to the pod.
func (s *service) addObject(kind, name, key string, content []byte, f report.Field) {
	isText := utf8.Valid(content)
	if kind == "secrets" {
		secret := &v1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: s.b.Meta(name)}
		if isText {
			secret.StringData = map[string]string{key: string(content)}
		} else {
			secret.Data = map[string][]byte{key: content}
		}
		s.b.AddObject(secret, f)
		return
	}
	config := &v1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: s.b.Meta(name)}
	if isText {
		config.Data = map[string]string{key: string(content)}
	} else {
		config.BinaryData = map[string][]byte{key: content}
	}
	s.b.AddObject(config, f)
}

// envFile turns env files into a Secret, since such files hold passwords. Later files take
// precedence, and environment over all.
func (s *service) envFile(n *tree.Node, f report.Field) {
	values := map[string]string{}
	for i, item := range listOf(n) {
		at := f.Index(i, item.Position)
		file, format := item, ""
		if item.Is(tree.Map) {
			file, format = item.Get("path"), item.Get("format").String()
		}
		data, err := s.p.host.ReadFile(s.p.host.Path(s.p.baseDir(item.File), file.String()))
		if err != nil {
			if item.Get("required").String() == "false" {
				s.p.report.Note(at, "does not exist and is not required", "")
			} else {
				s.p.report.Error(at, file.String()+" "+err.Error(), "convert on the machine that has the file")
			}
			continue
		}
		expand := func(text string) (string, error) {
			s.p.at = item.Position
			return s.p.vars.expand(text, 0)
		}
		if format == "raw" {
			expand = nil
		}
		lines, err := docker.ParseEnvFile(string(data), expand)
		if err != nil {
			s.p.report.Error(at, file.String()+": "+err.Error(), "must be lines of NAME=VALUE")
			continue
		}
		for _, line := range lines {
			value, set := line.Value, line.Set
			if !set {
				value, set = s.p.vars.lookup(line.Name)
			}
			if set {
				values[line.Name] = value
			}
		}
	}
	s.b.AddEnvFrom(s.c, podbuild.Name(s.name)+"-env", values, f)
}
