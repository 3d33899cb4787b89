package convert

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/podstead/podstead/cli/convert/compose"
	"github.com/podstead/podstead/cli/convert/podbuild"
	"github.com/podstead/podstead/cli/convert/quadlet"
	"github.com/podstead/podstead/cli/convert/report"
	"github.com/podstead/podstead/cli/convert/tree"
	"github.com/podstead/podstead/cli/convert/workload"
	"github.com/podstead/podstead/manifest"
)

// Options are those of a conversion.
type Options struct {
	// From is the kind of all inputs; empty detects it.
	From Kind
	// Namespace is that of pods and objects that have none; empty is default.
	Namespace string
	// Profiles are those of Compose that are active.
	Profiles []string
	// EnvFiles replace the file .env of a Compose file.
	EnvFiles []string
	Host     podbuild.Host
}

// Result is what a conversion found.
type Result struct {
	// Units are empty if the report has an error.
	Units  []podbuild.Unit
	Report *report.Report
}

// Convert converts the inputs together. Compose files are merged in their order, as docker
// compose merges several -f.
func Convert(inputs []Input, o Options) Result {
	r := &report.Report{}
	cluster := workload.Converter{Report: r, Namespace: o.Namespace}
	var files []compose.File
	var units []quadlet.File
	for _, in := range inputs {
		switch kind := detect(in, o.From); kind {
		case KindQuadlet:
			units = append(units, quadlet.File{Name: in.Name, Data: in.Data})
		default:
			parts, faults := manifest.Parts(in.Name, in.Data)
			for _, f := range faults {
				r.Error(report.Field{At: tree.Position{File: f.Unit, Line: f.Line}, Path: f.Path}, f.Problem, f.Remedy)
			}
			if len(faults) > 0 {
				continue
			}
			if kind == KindCompose || kind == "" && isCompose(parts) {
				files = append(files, compose.File{Name: in.Name, Parts: parts})
				continue
			}
			if len(parts) == 0 {
				r.Note(report.Field{At: tree.Position{File: in.Name}}, "contains no document", "")
			}
			for i := range parts {
				cluster.Document(in.Name, &parts[i])
			}
		}
	}
	var all []podbuild.Unit
	if len(files) > 0 {
		all = append(all, compose.Convert(files,
			compose.Options{Namespace: o.Namespace, Profiles: o.Profiles, EnvFiles: o.EnvFiles, Host: o.Host}, r)...)
	}
	if len(units) > 0 {
		all = append(all, quadlet.Convert(units, quadlet.Options{Namespace: o.Namespace, Host: o.Host}, r)...)
	}
	all = append(all, cluster.Units()...)
	all = check(all, r)
	if r.Count(report.Error) > 0 {
		all = nil
	}
	return Result{Units: all, Report: r}
}

// check validates each object as the daemon would. An object that it does not accept is an error,
// except for a Service: its pods run without it.
func check(units []podbuild.Unit, r *report.Report) []podbuild.Unit {
	loader := manifest.NewLoader("node", manifest.ModeStrict)
	seen := map[string]report.Field{}
	var valid []podbuild.Unit
	for _, u := range units {
		var objects []podbuild.Object
		for _, object := range u.Objects {
			if checkObject(loader, &object, r) && isFirst(&object, seen, r) {
				objects = append(objects, object)
			}
		}
		if u.Objects = objects; len(objects) > 0 {
			valid = append(valid, u)
		}
	}
	return valid
}

func checkObject(loader *manifest.Loader, object *podbuild.Object, r *report.Report) bool {
	text, err := json.Marshal(object.Value)
	if err != nil {
		r.Error(object.Origin, "cannot be written as JSON: "+err.Error(), "")
		return false
	}
	_, faults := loader.Load(manifest.LoadRequest{Source: manifest.SourceFile, Unit: object.Origin.At.File, Data: text})
	isService := object.Value["kind"] == "Service"
	for _, f := range faults {
		field := object.Origin
		problem := f.Problem
		switch {
		case object.Locate != nil:
			field = object.Locate(f.Path)
		case f.Path != "":
			problem = f.Path + " " + problem
		}
		switch {
		case f.Warning:
			r.Note(field, problem, f.Remedy)
		case isService:
			r.Lost(field, "the Service is left out: "+problem, strings.TrimSuffix(f.Remedy, "; remove the document"))
		default:
			r.Error(field, problem, f.Remedy)
		}
	}
	return !faults.Fatal()
}

// isFirst reports whether no object before has the same kind and name.
func isFirst(object *podbuild.Object, seen map[string]report.Field, r *report.Report) bool {
	ref, ok := manifest.RefOf(object.Value)
	if !ok {
		return true
	}
	first, twice := seen[ref.String()]
	if twice {
		r.Error(object.Origin, fmt.Sprintf("%s comes from %s:%d too", ref, first.At.File, first.At.Line),
			"change one of the names")
		return false
	}
	seen[ref.String()] = object.Origin
	return true
}
