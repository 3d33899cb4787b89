package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// maintainer is the one of packages.
const maintainer = "podstead authors <podstead@users.noreply.github.com>"

const description = `static pods from a directory, without Kubernetes
podstead runs the Pod manifests of /etc/pods on containerd or CRI-O with the
semantics of the kubelet, and keeps the pods running.
.
Restarts, upgrades and the removal of this package leave the pods running. To
end them, remove their manifests while podstead runs. Purging deletes what
podstead stores, except the data of PersistentVolumeClaims, and except
everything while pods still run.`

// unitFile is podstead.service as packages install it.
func (r release) unitFile() string { return filepath.Join(r.stage, "podstead.service") }

// units adapts the unit to the path of the program in packages.
func (r release) units() error {
	unit, err := os.ReadFile(filepath.Join("examples", "podstead.service"))
	if err != nil {
		return err
	}
	unit = regexp.MustCompile(`(?m)^#   .*\n`).ReplaceAll(unit, nil) // how to install it by hand
	packaged := bytes.Replace(unit, []byte("ExecStart=/usr/local/bin/podstead "), []byte("ExecStart=/usr/bin/podstead "),
		1)
	if bytes.Equal(unit, packaged) {
		return fmt.Errorf("examples/podstead.service does not start /usr/local/bin/podstead")
	}
	return os.WriteFile(r.unitFile(), packaged, 0o644)
}

// configFile is the configuration as it is installed.
func (r release) configFile() string { return filepath.Join(r.stage, "config.yaml") }

// configuration writes the example of a configuration as comments, apart from the settings
// of a new installation.
func (r release) configuration() error {
	example, err := os.ReadFile(filepath.Join("examples", "config", "config.yaml"))
	if err != nil {
		return err
	}
	return os.WriteFile(r.configFile(), commented(example), 0o644)
}

// installedSettings are the lines of the example that a new installation uses.
var installedSettings = []string{"apiVersion: kubelet.config.k8s.io/v1beta1\n", "kind: KubeletConfiguration\n",
	"seccompDefault: true\n"}

// commented returns a YAML file as comments, apart from installedSettings.
func commented(example []byte) []byte {
	text := "# Most of this is a comment. Remove the # of what you need.\n"
	for line := range strings.Lines(string(example)) {
		switch {
		case strings.HasPrefix(line, "# yaml-language-server:"):
		case strings.HasPrefix(line, "#"), slices.Contains(installedSettings, line):
			text += line
		default:
			text += "#" + line
		}
	}
	return []byte(text)
}

// changelogs writes Debian's changelog and copyright, and compresses podstead's changelog.
func (r release) changelogs() error {
	debian := fmt.Sprintf("podstead (%s-1) stable; urgency=medium\n\n  * Version %s. "+
		"/usr/share/doc/podstead/changelog.gz has the changes.\n\n -- %s  %s\n",
		packageVersion(r.version, r.date), r.version, maintainer, r.date.Format(time.RFC1123Z))
	dir := filepath.Join(r.stage, "doc")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, text := range map[string]string{"changelog.Debian": debian, "copyright": copyright} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	if err := copyFile("CHANGELOG.md", filepath.Join(dir, "changelog"), 0o644); err != nil {
		return err
	}
	if err := compress(filepath.Join(dir, "changelog")); err != nil {
		return err
	}
	return compress(filepath.Join(dir, "changelog.Debian"))
}

const copyright = `Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: podstead
Source: https://github.com/podstead/podstead
Comment: The program contains Go modules of other authors under permissive
 licences. /usr/share/doc/podstead/licenses has the text of each.

Files: *
Copyright: 2026 the podstead authors
License: Apache-2.0
 On Debian systems, /usr/share/common-licenses/Apache-2.0 has the text of the
 Apache License, version 2.0.
`

// packageVersion returns a version as dpkg and rpm compare them: a pre-release sorts before its
// release, commits after a release after it, and a commit without any release by its date.
func packageVersion(version string, date time.Time) string {
	v, ok := strings.CutPrefix(version, "v")
	if !ok || v == "" || v[0] < '0' || v[0] > '9' {
		return "0~" + date.Format("20060102150405") + "." + strings.ReplaceAll(version, "-", ".")
	}
	number, rest, _ := strings.Cut(v, "-")
	if rest == "" {
		return number
	}
	since := regexp.MustCompile(`(?:^|-)([0-9]+-g[0-9a-f]+)(-dirty)?$|(?:^|-)dirty$`)
	at := since.FindStringIndex(rest)
	if at == nil {
		return number + "~" + strings.ReplaceAll(rest, "-", ".")
	}
	pre, after := rest[:at[0]], strings.TrimPrefix(rest[at[0]:], "-")
	if pre != "" {
		number += "~" + strings.ReplaceAll(pre, "-", ".")
	}
	return number + "+" + strings.ReplaceAll(after, "-", ".")
}

// content is a file or directory of a package, in the form of nfpm.
type content struct {
	Source   string    `json:"src,omitempty"`
	Target   string    `json:"dst"`
	Type     string    `json:"type,omitempty"`
	Packager string    `json:"packager,omitempty"`
	Info     *fileInfo `json:"file_info,omitempty"`
}

type fileInfo struct {
	Mode  int    `json:"mode,omitempty"`
	MTime string `json:"mtime"`
}

// packages writes the deb and the rpm of a platform.
func (r release) packages(p platform) error {
	if len(r.nfpm) == 0 {
		return nil
	}
	for _, format := range []string{"deb", "rpm"} {
		contents, err := r.contents(p, format)
		if err != nil {
			return err
		}
		// JSON is YAML.
		config, err := json.MarshalIndent(r.packageConfig(p, format, contents), "", "  ")
		if err != nil {
			return err
		}
		file := filepath.Join(r.stage, p.name, format+".yaml")
		if err := os.WriteFile(file, config, 0o644); err != nil {
			return err
		}
		args := append(slices.Clone(r.nfpm[1:]), "package", "--config", file, "--packager", format, "--target",
			filepath.Join(r.out, r.packageName(p, format)))
		if err := command([]string{fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.date.Unix())}, r.nfpm[0], args...); err != nil {
			return err
		}
	}
	return nil
}

// architectures are what dpkg and rpm call the platforms.
var architectures = map[string]map[string]string{
	"deb": {"amd64": "amd64", "arm64": "arm64", "armv7": "armhf", "riscv64": "riscv64"},
	"rpm": {"amd64": "x86_64", "arm64": "aarch64", "armv7": "armv7hl", "riscv64": "riscv64"},
}

func (r release) packageName(p platform, format string) string {
	version, arch := packageVersion(r.version, r.date), architectures[format][p.name]
	if format == "rpm" {
		return "podstead-" + version + "-1." + arch + ".rpm"
	}
	return "podstead_" + version + "-1_" + arch + ".deb"
}

func (r release) packageConfig(p platform, format string, contents []content) map[string]any {
	script := func(name string) string { return filepath.Join("build", "package", format, name) }
	scripts := map[string]any{"postinstall": script("postinst"), "preremove": script("prerm"),
		"postremove": script("postrm")}
	recommends := []string{"containerd | cri-o", "runc", "containernetworking-plugins", "iptables"}
	if format == "rpm" {
		recommends = []string{"containerd", "runc", "containernetworking-plugins", "iptables"}
	}
	text := description
	if format == "rpm" {
		text = strings.ReplaceAll(text, "\n.\n", "\n\n")
	}
	return map[string]any{
		"name": "podstead", "arch": p.pkg, "platform": "linux", "section": "admin", "priority": "optional",
		"version": packageVersion(r.version, r.date), "version_schema": "none", "release": "1",
		"maintainer": maintainer, "description": text, "homepage": "https://github.com/podstead/podstead",
		"license":    map[string]string{"rpm": "Apache-2.0"}[format],
		"recommends": recommends, "mtime": r.date.Format(time.RFC3339),
		"contents": contents, "scripts": scripts,
		"deb": map[string]any{"compression": "gzip"},
		"rpm": map[string]any{"compression": "gzip", "group": "System Environment/Daemons",
			"summary": strings.SplitN(description, "\n", 2)[0], "buildhost": "localhost"},
	}
}

// contents returns what a package installs.
func (r release) contents(p platform, format string) ([]content, error) {
	at := r.date.Format(time.RFC3339)
	info := func(mode int) *fileInfo { return &fileInfo{Mode: mode, MTime: at} }
	doc := "/usr/share/doc/podstead/"
	list := []content{
		{Source: r.program(p), Target: "/usr/bin/podstead", Info: info(0o755)},
		{Source: r.unitFile(), Target: "/usr/lib/systemd/system/podstead.service", Info: info(0o644)},
		{Source: "build/package/podstead.preset", Target: "/usr/lib/systemd/system-preset/50-podstead.preset",
			Info: info(0o644)},
		{Target: "/etc/pods", Type: "dir", Info: info(0o755)},
		{Source: r.configFile(), Target: "/etc/podstead/config.yaml", Type: "config|noreplace", Info: info(0o644)},
		{Source: filepath.Join(r.stage, "completions/bash/podstead"),
			Target: "/usr/share/bash-completion/completions/podstead", Info: info(0o644)},
		{Source: filepath.Join(r.stage, "completions/fish/podstead.fish"),
			Target: "/usr/share/fish/vendor_completions.d/podstead.fish", Info: info(0o644)},
		{Source: "README.md", Target: doc + "README.md", Info: info(0o644)},
		{Source: "SECURITY.md", Target: doc + "SECURITY.md", Info: info(0o644)},
	}
	zsh := "/usr/share/zsh/vendor-completions/_podstead" // where Debian's zsh looks
	if format == "rpm" {
		zsh = "/usr/share/zsh/site-functions/_podstead"
	}
	list = append(list, content{Source: filepath.Join(r.stage, "completions/zsh/_podstead"), Target: zsh,
		Info: info(0o644)})
	trees := [][2]string{{filepath.Join(r.stage, "man"), "/usr/share/man/man1"},
		{filepath.Join(r.stage, p.name, "licenses"), doc + "licenses"}, {"docs", doc + "docs"},
		{"examples", doc + "examples"}}
	for _, t := range trees {
		files, err := tree(t[0], t[1])
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			list = append(list, content{Source: f.source, Target: f.name, Info: info(0o644)})
		}
	}
	if format == "deb" {
		for _, name := range []string{"changelog.Debian.gz", "changelog.gz", "copyright"} {
			list = append(list, content{Source: filepath.Join(r.stage, "doc", name), Target: doc + name, Info: info(0o644)})
		}
		list = append(list, content{Source: "build/package/deb/lintian-overrides",
			Target: "/usr/share/lintian/overrides/podstead", Info: info(0o644)})
	} else {
		list = append(list, content{Source: "LICENSE", Target: "/usr/share/licenses/podstead/LICENSE", Info: info(0o644)},
			content{Source: "CHANGELOG.md", Target: doc + "CHANGELOG.md", Info: info(0o644)})
		for _, dir := range ownDirs(list) {
			list = append(list, content{Target: dir, Type: "dir", Info: info(0o755)})
		}
	}
	return list, nil
}

// ownDirs returns the directories that only this package has files in, sorted. rpm removes a
// directory only if it is part of the package; dpkg removes each that is empty.
func ownDirs(list []content) []string {
	dirs := map[string]bool{}
	for _, c := range list {
		for dir := path.Dir(c.Target); strings.Contains(dir, "/podstead"); dir = path.Dir(dir) {
			dirs[dir] = true
		}
	}
	return slices.Sorted(maps.Keys(dirs))
}
