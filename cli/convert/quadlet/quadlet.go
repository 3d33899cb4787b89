package quadlet

import (
	"fmt"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cli/convert/podbuild"
	"github.com/podstead/podstead/cli/convert/report"
	"github.com/podstead/podstead/cli/convert/tree"
	"github.com/podstead/podstead/cli/convert/workload"
	"github.com/podstead/podstead/internal/suggest"
	"github.com/podstead/podstead/manifest"
)

// File is one unit file.
type File struct {
	Name string
	Data []byte
}

// Options are those of a conversion.
type Options struct {
	Namespace string
	Host      podbuild.Host
}

// converter converts the units together, since they refer to each other.
type converter struct {
	options Options
	report  *report.Report
	units   []*unitFile
	// pods are the builders of .pod and .container units by base name.
	pods map[string]*podbuild.Builder
	// claimed are the claims that exist.
	claimed map[string]bool
}

// container is the conversion of one .container unit.
type container struct {
	*converter
	u      *unitFile
	b      *podbuild.Builder
	c      *v1.Container
	shared bool
}

// Convert converts units. A pod is named after its unit.
func Convert(files []File, o Options, r *report.Report) []podbuild.Unit {
	c := &converter{options: o, report: r, pods: map[string]*podbuild.Builder{}, claimed: map[string]bool{}}
	for _, f := range files {
		u := parse(f, r)
		c.units = append(c.units, u)
		if mode, exists := o.Host.Mode(f.Name + ".d"); exists && mode.IsDir() {
			r.Lost(u.file(), "the drop-in files of "+u.base+".d are not read", "put their keys into the unit")
		}
	}
	if r.Count(report.Error) > 0 {
		return nil
	}
	var order []*podbuild.Builder
	var containers []*container
	for _, u := range c.units {
		if u.suffix == ".pod" && c.isPlain(u) {
			b := c.builder(u, "Pod", "PodName")
			c.pods[u.base] = b
			order = append(order, b)
		}
	}
	for _, u := range c.units {
		if u.suffix == ".container" && c.isPlain(u) {
			k := c.newContainer(u)
			containers = append(containers, k)
			if !k.shared {
				order = append(order, k.b)
			}
		}
	}
	var all []podbuild.Unit
	for _, k := range containers {
		k.convert()
	}
	for _, u := range c.units {
		switch u.suffix {
		case ".container":
		case ".pod":
			c.pod(u)
		case ".kube":
			all = append(all, c.kube(u)...)
		case ".volume":
			c.checkKeys(u, "Volume", volumeKeys)
		case ".network":
			c.checkKeys(u, "Network", networkKeys)
		case ".build":
			r.Lost(u.file(), "images are not built here",
				"build the image elsewhere, and push it, or copy it with podman save and podstead images load")
		case ".image":
		default:
			r.Error(u.file(), "is not a Quadlet unit", "must have a section [Container], [Pod], [Kube], [Volume] or [Network]")
		}
	}
	for _, b := range order {
		all = append(all, b.Unit())
	}
	return all
}

// isPlain reports whether a unit is not a template of units.
func (c *converter) isPlain(u *unitFile) bool {
	if !strings.HasSuffix(u.name, "@") {
		return true
	}
	c.report.Error(u.file(), "is a template of units", "copy it for each instance, with the instance for %i")
	return false
}

// unit returns another unit by its name: one of those that are converted, or a file next to u.
func (c *converter) unit(u *unitFile, base string) *unitFile {
	for _, other := range c.units {
		if other.base == base {
			return other
		}
	}
	path := filepath.Join(c.options.Host.BaseDir(u.path), base)
	data, err := c.options.Host.ReadFile(path)
	if err != nil {
		return nil
	}
	other := parse(File{Name: path, Data: data}, c.report)
	c.units = append(c.units, other)
	return other
}

// builder returns the builder of the pod of a unit.
func (c *converter) builder(u *unitFile, section, nameKey string) *podbuild.Builder {
	desired := u.value(section, nameKey)
	f := u.file()
	if e, ok := u.last(section, nameKey); ok {
		f = u.field(e)
	} else {
		desired = u.name
	}
	name := podbuild.Name(strings.TrimPrefix(desired, "systemd-"))
	if name != desired {
		c.report.Note(f, fmt.Sprintf("the pod is named %s, as names in Kubernetes must be", name),
			"use that name where others refer to "+desired)
	}
	return podbuild.New(name, c.options.Namespace, u.file(), c.report)
}

func (c *converter) newContainer(u *unitFile) *container {
	k := &container{converter: c, u: u}
	if e, ok := u.last("Container", "Pod"); ok {
		other := c.pods[e.value]
		if other == nil {
			if file := c.unit(u, e.value); file != nil && file.suffix == ".pod" {
				c.report.Error(u.field(e), "the unit "+e.value+" is not among the converted ones",
					"convert the directory, or name both files")
			} else {
				c.report.Error(u.field(e), "there is no unit "+e.value, "")
			}
		} else {
			k.b, k.shared = other, true
		}
	}
	if k.b == nil {
		k.b = c.builder(u, "Container", "ContainerName")
		c.pods[u.base] = k.b
	}
	k.c = k.b.AddContainer(podbuild.Name(u.name))
	return k
}

// dependencies turns the order of units into that of pods.
func (c *converter) dependencies(u *unitFile, b *podbuild.Builder) {
	for _, e := range u.entries {
		if e.section != "Unit" {
			continue
		}
		switch e.key {
		case "Description", "Documentation", "SourcePath", "DefaultDependencies", "JoinsNamespaceOf", "":
		case "After", "Requires", "BindsTo", "Requisite", "Wants", "PartOf", "Upholds":
			for _, name := range strings.Fields(e.value) {
				c.dependency(u, b, e, name)
			}
		default:
			c.report.Lost(u.field(e), "a pod has no condition of systemd",
				"order pods with the annotation podstead.io/depends-on")
		}
	}
}

func (c *converter) dependency(u *unitFile, b *podbuild.Builder, e entry, name string) {
	for _, suffix := range []string{".target", ".slice", ".socket"} {
		if strings.HasSuffix(name, suffix) {
			return // pods start when the daemon does, after the network
		}
	}
	for _, other := range c.units {
		service := other.value(sectionOf(other), "ServiceName")
		if service == "" {
			service = other.name
			if other.suffix != ".container" && other.suffix != ".kube" {
				service += "-" + other.suffix[1:]
			}
		}
		if name != other.base && name != service+".service" {
			continue
		}
		if target := c.podOf(other); target != nil && target != b &&
			(e.key == "After" || e.key == "Requires" || e.key == "BindsTo") {
			b.DependsOn(target.Pod.Name)
		}
		return
	}
	if e.key == "After" || e.key == "Requires" || e.key == "BindsTo" {
		c.report.Lost(u.field(e), "the pod does not wait for "+name,
			"convert its unit too, or order the unit of podstead after it")
	}
}

// podOf returns the pod of a unit; nil without one.
func (c *converter) podOf(u *unitFile) *podbuild.Builder {
	if b := c.pods[u.base]; b != nil {
		return b
	}
	return c.pods[u.value("Container", "Pod")]
}

func sectionOf(u *unitFile) string {
	for _, kind := range kinds {
		if kind.suffix == u.suffix {
			return kind.section
		}
	}
	return ""
}

// checkKeys reports the keys of a section that lose something. An empty text is a key that loses
// nothing, or is converted elsewhere.
func (c *converter) checkKeys(u *unitFile, section string, known map[string]string) {
	for _, e := range u.entries {
		problem, ok := known[e.key]
		switch {
		case e.section != section || e.value == "":
		case !ok:
			c.unknown(u, e, known)
		case problem != "" && e.value != "false" && e.value != "no" && e.value != "healthy":
			c.report.Lost(u.field(e), problem, "")
		}
	}
}

func (c *converter) unknown(u *unitFile, e entry, known map[string]string) {
	var names []string
	for name := range known {
		names = append(names, name)
	}
	remedy := ""
	if meant := suggest.Nearest(e.key, names); meant != "" {
		remedy = fmt.Sprintf("did you mean %q?", meant)
	}
	c.report.Error(u.field(e), "is not a key of the section", remedy)
}

// kube converts the manifests of a .kube unit.
func (c *converter) kube(u *unitFile) []podbuild.Unit {
	c.checkKeys(u, "Kube", kubeKeys)
	cluster := workload.Converter{Report: c.report, Namespace: c.options.Namespace}
	files := append(u.all("Kube", "ConfigMap"), u.all("Kube", "Yaml")...)
	if len(u.all("Kube", "Yaml")) == 0 {
		c.report.Error(u.file(), "has no Yaml=", "name the manifest")
	}
	for _, e := range files {
		path := c.options.Host.Path(c.options.Host.BaseDir(u.path), u.expand(e, c.report))
		data, err := c.options.Host.ReadFile(path)
		if err != nil {
			c.report.Error(u.field(e), fmt.Sprintf("%s %v", e.value, err), "convert on the machine that has the file")
			continue
		}
		parts, faults := manifest.Parts(path, data)
		for _, f := range faults {
			c.report.Error(report.Field{At: tree.Position{File: path, Line: f.Line}, Path: f.Path}, f.Problem, f.Remedy)
		}
		for i := range parts {
			cluster.Document(path, &parts[i])
		}
	}
	for _, e := range u.all("Kube", "PublishPort") {
		c.report.Lost(u.field(e), "the port "+e.value+" is not published",
			"add hostPort to the port of the container in the manifest")
	}
	c.serviceSection(u, nil)
	return cluster.Units()
}

// Manifests returns the names of the manifests of a .kube unit, which are read through it.
func Manifests(file File) []string {
	u := parse(file, &report.Report{})
	var names []string
	for _, e := range append(u.all("Kube", "ConfigMap"), u.all("Kube", "Yaml")...) {
		names = append(names, e.value)
	}
	return names
}
