package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The types are the part of CycloneDX 1.6 that is written.
type (
	document struct {
		Schema       string       `json:"$schema"`
		Format       string       `json:"bomFormat"`
		SpecVersion  string       `json:"specVersion"`
		SerialNumber string       `json:"serialNumber"`
		Version      int          `json:"version"`
		Metadata     metadata     `json:"metadata"`
		Components   []component  `json:"components"`
		Dependencies []dependency `json:"dependencies"`
	}
	metadata struct {
		Timestamp string    `json:"timestamp"`
		Component component `json:"component"`
	}
	component struct {
		Type       string     `json:"type"`
		Ref        string     `json:"bom-ref"`
		Name       string     `json:"name"`
		Version    string     `json:"version"`
		PURL       string     `json:"purl"`
		Licenses   []license  `json:"licenses"`
		Hashes     []hash     `json:"hashes,omitempty"`
		Properties []property `json:"properties,omitempty"`
	}
	license struct {
		License struct {
			ID string `json:"id"`
		} `json:"license"`
	}
	hash struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"`
	}
	property struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	dependency struct {
		Ref       string   `json:"ref"`
		DependsOn []string `json:"dependsOn,omitempty"`
	}
)

// billOfMaterials writes the modules that the linker recorded in the program, in the form of
// CycloneDX. Each of them must be among those whose licences were collected.
func (r release) billOfMaterials(p platform, modules []module) error {
	info, err := buildinfo.ReadFile(r.program(p))
	if err != nil {
		return err
	}
	program, err := os.ReadFile(r.program(p))
	if err != nil {
		return err
	}
	sum := sha256.Sum256(program)
	byPath := map[string]module{}
	for _, m := range modules {
		byPath[m.path] = m
	}
	self := component{
		Type: "application", Name: "podstead", Version: r.version, Licenses: licenseList("Apache-2.0"),
		PURL: purl(info.Main.Path, r.version), Hashes: []hash{{"SHA-256", fmt.Sprintf("%x", sum)}},
		Properties: []property{{"commit", r.commit}, {"platform", "linux/" + p.name}, {"go", info.GoVersion}},
	}
	self.Ref = self.PURL
	doc := document{
		Schema: "http://cyclonedx.org/schema/bom-1.6.schema.json", Format: "CycloneDX", SpecVersion: "1.6", Version: 1,
		// The serial number follows from the program, so that it is the same in each build.
		SerialNumber: fmt.Sprintf("urn:uuid:%x-%x-5%03x-a%03x-%x", sum[:4], sum[4:6], uint16(sum[6])<<4|uint16(sum[7])>>4,
			uint16(sum[8])<<4|uint16(sum[9])>>4, sum[10:16]),
		Metadata: metadata{Timestamp: r.date.Format(time.RFC3339), Component: self},
	}
	all := dependency{Ref: self.Ref}
	add := func(path, version, sum string) error {
		m, ok := byPath[path]
		if !ok {
			return fmt.Errorf("%s %s is linked, but go list does not report it", path, version)
		}
		c := component{Type: "library", Name: path, Version: version, PURL: purl(path, version),
			Licenses: licenseList(m.licenses...)}
		if sum != "" {
			c.Properties = []property{{"go.sum", sum}}
		}
		c.Ref = c.PURL
		doc.Components, all.DependsOn = append(doc.Components, c), append(all.DependsOn, c.Ref)
		doc.Dependencies = append(doc.Dependencies, dependency{Ref: c.Ref})
		return nil
	}
	if err := add("std", strings.TrimPrefix(info.GoVersion, "go"), ""); err != nil {
		return err
	}
	for _, d := range info.Deps {
		if d.Replace != nil {
			return fmt.Errorf("%s is replaced by %s: a release uses released modules", d.Path, d.Replace.Path)
		}
		if err := add(d.Path, d.Version, d.Sum); err != nil {
			return err
		}
	}
	doc.Dependencies = append([]dependency{all}, doc.Dependencies...)
	text, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, r.base(p)+".cdx.json"), append(text, '\n'), 0o644)
}

func purl(path, version string) string {
	return "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
}

func licenseList(ids ...string) (list []license) {
	for _, id := range ids {
		var l license
		l.License.ID = id
		list = append(list, l)
	}
	return list
}
