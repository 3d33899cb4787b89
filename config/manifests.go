package config

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/podstead/podstead/internal/registry"
)

const (
	// defaultCheck is the kubelet's interval of checking sources, and minCheck the shortest of
	// intervals that cause work all the time.
	defaultCheck = 20 * time.Second
	minCheck     = 100 * time.Millisecond
	atLeastCheck = "must be at least 100ms, such as 20s"
)

func (m *Manifests) settings() []setting {
	return []setting{
		{flag: "pod-manifest-path", field: "staticPodPath", value: file(&m.Path, DefaultManifestPath),
			help: "`directory` or file of pod manifests; empty for none"},
		{flag: "file-check-frequency", field: "fileCheckFrequency", value: duration(&m.FileCheck, defaultCheck),
			check: atLeast(&m.FileCheck, minCheck, atLeastCheck),
			help:  "`interval` of full rescans of --pod-manifest-path; changes are also detected immediately"},
		{flag: "manifest-url", field: "staticPodURL", value: text(&m.URL, "").as(func() any { return maskURL(m.URL) }),
			check: m.checkURL,
			help:  "`URL` of pod manifests"},
		{flag: "manifest-url-header", field: "staticPodURLHeader",
			value: list(&m.headers).reading(m.readHeader).as(func() any { return maskHeader(m.Header) }), check: m.checkHeader,
			help: "HTTP header of requests to --manifest-url, as `name:value`; can be repeated"},
		{flag: "manifest-url-ca-file", own: "manifestURLCAFile", value: file(&m.CAFile, ""),
			help: "PEM `file` of certificate authorities for --manifest-url, instead of the system's"},
		{
			flag: "manifest-oci", own: "manifestOCI", value: list(&m.OCI),
			check: func(s *setting) {
				if _, err := registry.ParseArtifacts(m.OCI); err != nil {
					s.fail(": %w", err)
				}
			},
			help: "OCI artifact of pod manifests, as `registry/repository:tag`; can be repeated",
		},
		{flag: "http-check-frequency", field: "httpCheckFrequency", value: duration(&m.HTTPCheck, defaultCheck),
			check: atLeast(&m.HTTPCheck, minCheck, atLeastCheck),
			help:  "`interval` of requests to --manifest-url, and for the digest of each --manifest-oci"},
		{flag: "manifest-verify-key", own: "manifestVerifyKeys", value: list(&m.Keys.files).reading(m.Keys.read),
			check: m.Keys.check,
			help: "PEM `file` of ECDSA P-256 public keys that verify the signatures of manifests, made by cosign: of all " +
				"sources, or with the prefix file=, url= or oci= of one; can be repeated, and any of the keys suffices"},
		{
			flag: "manifest-validation", own: "manifestValidation",
			value: choice(&m.Mode, "strict", ": unknown manifest validation %q; must be strict, warn or ignore",
				"strict", "warn", "ignore"),
			help: "how to treat unknown and duplicate fields of manifests: strict, warn or ignore",
		},
	}
}

const maskedRemedy = "is masked, as /configz shows secrets; replace it by the real value"

func (m *Manifests) checkURL(s *setting) {
	if s.source == fromFile && isMasked(m.URL) {
		s.fail(": a part %s", maskedRemedy)
	} else if m.URL != "" {
		if u, err := url.Parse(m.URL); err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
			s.fail(": must be http://HOST/PATH or https://HOST/PATH")
		}
	}
}

// readHeader reads a map of header to values. Messages do not have the values, which may be secret.
func (m *Manifests) readHeader(n node) bool {
	fields, ok := n.value.(map[string]any)
	if !ok {
		n.fail("must be a map of header to list of values")
		return false
	}
	m.Header = http.Header{}
	headers, _ := node{n.reader, n.path, fields}.entries("")
	for _, header := range headers {
		if _, ok := header.value.([]any); !ok {
			header.fail("must be a list of values, such as [\"token\"]")
			continue
		}
		values, _ := header.items("")
		for _, value := range values {
			text, ok := value.value.(string)
			if !ok {
				value.fail("must be a string; quote it")
				continue
			}
			m.Header[header.name(n)] = append(m.Header[header.name(n)], text)
		}
	}
	return true
}

// checkHeader parses the flags, of which each has a name and a value.
func (m *Manifests) checkHeader(s *setting) {
	if s.source == fromFile {
		for name, values := range m.Header {
			if isMasked(strings.Join(values, "\n")) {
				s.table.failAt(within{s, "." + name}, ": the value %s", maskedRemedy)
			}
		}
		return
	}
	m.Header = http.Header{}
	for _, p := range m.headers {
		name, value, found := strings.Cut(p, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !found || name == "" || strings.ContainsAny(name, " \t\r\n") || strings.ContainsAny(value, "\r\n") {
			// The value may be a secret and is not repeated.
			s.fail(": must be name:value, such as X-Token:abc")
			return
		}
		m.Header.Add(name, value)
	}
}

func (m *Manifests) check(t *table) {
	if m.Path == "" && m.URL == "" && len(m.OCI) == 0 && t.sound(&m.Path, &m.URL, &m.OCI) {
		t.fail("nothing to run: set --pod-manifest-path, --manifest-url or --manifest-oci")
	}
}
