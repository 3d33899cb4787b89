package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// module is a module of which packages are linked.
type module struct {
	path, version, dir string
	// licenses are the SPDX identifiers of its licences, sorted.
	licenses []string
	// files are the licences, notices and patent grants, with their paths in the module.
	files map[string][]byte
}

// licenseFile matches the names of licences, notices and patent grants.
var licenseFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents|copyright)([-._].*)?$`)

// licenses writes the licence texts of all linked modules and of Go's standard library to the
// stage, and returns the modules. A module without a licence, or with one that is not permissive, is
// an error.
func (r release) licenses(p platform) ([]module, error) {
	modules, err := linkedModules(p)
	if err != nil {
		return nil, err
	}
	var errs []error
	dir := filepath.Join(r.stage, p.name, "licenses")
	for i := range modules {
		m := &modules[i]
		if m.licenses, err = licensesOf(m.files); err != nil {
			errs = append(errs, fmt.Errorf("%s %s: %w", m.path, m.version, err))
			continue
		}
		for name, text := range m.files {
			to := filepath.Join(dir, filepath.FromSlash(m.path), filepath.FromSlash(name))
			errs = append(errs, os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, text, 0o644))
		}
	}
	return modules, errors.Join(errs...)
}

// linkedModules returns the modules of the packages in the program, with the standard library as
// module "std", sorted by path.
func linkedModules(p platform) ([]module, error) {
	cmd := exec.Command("go", "list", "-deps", "-tags", buildTags, "-json=ImportPath,Dir,Standard,Module",
		"./cmd/podstead")
	cmd.Env = append(append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux"), p.env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, stderr.String())
	}
	std, err := standardLibrary()
	if err != nil {
		return nil, err
	}
	byPath := map[string]*module{std.path: &std}
	dec := json.NewDecoder(bytes.NewReader(out))
	for {
		var pkg struct {
			Dir      string
			Standard bool
			Module   *struct {
				Path, Version, Dir string
				Main               bool
			}
		}
		if err := dec.Decode(&pkg); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		if pkg.Module == nil || pkg.Module.Main {
			continue
		}
		m := byPath[pkg.Module.Path]
		if m == nil {
			m = &module{path: pkg.Module.Path, version: pkg.Module.Version, dir: pkg.Module.Dir, files: map[string][]byte{}}
			byPath[m.path] = m
		}
		if err := m.collect(pkg.Dir); err != nil {
			return nil, err
		}
	}
	var list []module
	for _, m := range byPath {
		list = append(list, *m)
	}
	slices.SortFunc(list, func(a, b module) int { return strings.Compare(a.path, b.path) })
	return list, nil
}

// standardLibrary returns Go's standard library as a module.
func standardLibrary() (module, error) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return module{}, fmt.Errorf("go env GOROOT: %w", err)
	}
	m := module{path: "std", version: strings.TrimPrefix(runtime.Version(), "go"), dir: strings.TrimSpace(string(out)),
		files: map[string][]byte{}}
	return m, m.collect(m.dir)
}

// collect reads the licences in the directory of a package and in those above, up to the
// module's.
func (m *module) collect(dir string) error {
	for {
		files, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(m.dir, dir)
		if err != nil || strings.HasPrefix(rel, "..") {
			return fmt.Errorf("%s is not in %s", dir, m.dir)
		}
		for _, f := range files {
			name := filepath.ToSlash(filepath.Join(rel, f.Name()))
			if !f.Type().IsRegular() || !licenseFile.MatchString(f.Name()) || strings.HasSuffix(f.Name(), ".go") ||
				strings.HasSuffix(f.Name(), ".docs") || m.files[name] != nil {
				continue // code, the licence of documentation, or known
			}
			if m.files[name], err = os.ReadFile(filepath.Join(dir, f.Name())); err != nil {
				return err
			}
		}
		if rel == "." {
			return nil
		}
		dir = filepath.Dir(dir)
	}
}

// knownLicenses are phrases by which a licence is recognized, in lower case and with single spaces.
// All phrases of a row must occur.
var knownLicenses = []struct {
	id        string
	forbidden bool
	phrases   []string
}{
	{"GPL", true, []string{"gnu general public license"}},
	{"LGPL", true, []string{"gnu lesser general public license"}},
	{"AGPL", true, []string{"gnu affero general public license"}},
	{"MPL", true, []string{"mozilla public license"}},
	{"EPL", true, []string{"eclipse public license"}},
	{"CDDL", true, []string{"common development and distribution license"}},
	{"SSPL", true, []string{"server side public license"}},
	{"BUSL", true, []string{"business source license"}},
	{"CC-BY-SA", true, []string{"attribution-sharealike"}},
	{"Apache-2.0", false, []string{"apache license", "version 2.0"}},
	{"MIT", false, []string{"permission is hereby granted, free of charge, to any person obtaining a copy"}},
	{"ISC", false, []string{"permission to use, copy, modify, and/or distribute this software for any purpose"}},
	{"BSD-3-Clause", false, []string{"redistribution and use in source and binary forms", "neither the name"}},
	{"BSD-2-Clause", false, []string{"redistribution and use in source and binary forms"}},
}

// termsFile matches the names of files that a licence must be recognized in; others, such as a NOTICE,
// need not have one.
var termsFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying)`)

// licensesOf returns the SPDX identifiers of licence texts. A file with terms of which none is
// known is an error, even if another file has known ones.
func licensesOf(files map[string][]byte) ([]string, error) {
	var ids []string
	for name, data := range files {
		text := strings.Join(strings.Fields(strings.ToLower(string(data))), " ")
		bsd, known := false, false
		for _, l := range knownLicenses {
			if slices.ContainsFunc(l.phrases, func(p string) bool { return !strings.Contains(text, p) }) ||
				l.id == "BSD-2-Clause" && bsd {
				continue
			}
			if l.forbidden {
				return nil, fmt.Errorf("%s is under the %s, which is not a permissive licence; replace the dependency", name, l.id)
			}
			bsd, known = bsd || l.id == "BSD-3-Clause", true
			ids = append(ids, l.id)
		}
		if !known && termsFile.MatchString(path.Base(name)) {
			return nil, fmt.Errorf("%s has no known licence; add its text to knownLicenses in build/release/licenses.go, if "+
				"it is permissive", name)
		}
	}
	if len(ids) == 0 {
		return nil, errors.New("there is no licence; replace the dependency")
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}
