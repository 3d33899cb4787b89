package kubeapi

import (
	"net/http"
	"reflect"
	"strings"

	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// openAPIPath is the path of the OpenAPI documents.
const openAPIPath = "/openapi/v3"

// path returns the path of the group and the version of a resource, without a slash at its start.
func (r *resource) path() string {
	if r.group == "" {
		return "api/v1"
	}
	return "apis/" + r.apiVersion()
}

// openAPIIndex serves /openapi/v3.
func (a *API) openAPIIndex(w http.ResponseWriter, _ *http.Request) {
	paths := map[string]any{}
	for _, r := range a.resources {
		paths[r.path()] = map[string]string{"serverRelativeURL": openAPIPath + "/" + r.path() + "?hash=" + a.version}
	}
	writeJSON(w, http.StatusOK, map[string]any{"paths": paths})
}

// openAPI describes a group: enough for kubectl to explain fields, and to leave validation
// to the server, whose error reports what to edit instead. It is generated from the types for
// each request, as requests are rare.
func (a *API) openAPI(w http.ResponseWriter, request *http.Request) {
	s := schemas{}
	paths := map[string]any{}
	for _, r := range a.resources {
		if r.path() != strings.Trim(strings.TrimPrefix(request.URL.Path, openAPIPath), "/") {
			continue
		}
		gvk, of := a.define(s, r), reflect.TypeOf(r.empty).Elem()
		collection := "/" + r.path() + "/" + r.name
		if r.namespaced {
			collection = "/" + r.path() + "/namespaces/{namespace}/" + r.name
		}
		operation := func(action string, parameters ...any) map[string]any {
			schema := map[string]string{"$ref": reference(of)}
			if r.unsupported {
				schema = map[string]string{"type": "object"}
			}
			return map[string]any{
				"x-kubernetes-action": action, extensionKind: gvk, "parameters": parameters,
				"responses": map[string]any{"200": map[string]any{"description": "OK",
					"content": map[string]any{"application/json": map[string]any{"schema": schema}}}},
			}
		}
		validation := map[string]any{"name": "fieldValidation", "in": "query", "schema": map[string]string{"type": "string"}}
		dryRun := map[string]any{"name": "dryRun", "in": "query", "schema": map[string]string{"type": "string"}}
		paths[collection] = map[string]any{"get": operation("list"), "post": operation("post", dryRun, validation)}
		paths[collection+"/{name}"] = map[string]any{
			"get": operation("get"), "put": operation("put", dryRun, validation),
			"patch": operation("patch", dryRun, validation), "delete": operation("delete", dryRun),
		}
	}
	if len(paths) == 0 {
		a.notServed(w, request)
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{
		"openapi": "3.0.0", "info": map[string]string{"title": "podstead", "version": a.version},
		"paths": paths, "components": map[string]any{"schemas": s},
	})
}

// define adds the schema of a resource, and returns its kind.
func (a *API) define(s schemas, r *resource) (gvk map[string]string) {
	gvk = map[string]string{"group": r.group, "version": r.cache.kind.Version, "kind": r.kind}
	if r.unsupported { // kubectl explain reports what to do instead
		s[r.kind] = map[string]any{
			"type": "object", "description": "podstead does not support " + r.name + ": " + a.remedy(r.kind, r.apiVersion()) +
				".",
			extensionKind: []any{gvk}, "x-kubernetes-preserve-unknown-fields": true,
		}
		return gvk
	}
	s.define(reflect.TypeOf(r.empty).Elem())[extensionKind] = []any{gvk}
	return gvk
}

// schemas are the schemas of types by name.
type schemas map[string]map[string]any

// typeName returns the name of a type in the OpenAPI documents of Kubernetes.
func typeName(t reflect.Type) string {
	return strings.ReplaceAll(strings.Replace(t.PkgPath(), "k8s.io", "io.k8s", 1), "/", ".") + "." + t.Name()
}

// referencePrefix is the path of the schemas in a document of version 3.
const referencePrefix = "#/components/schemas/"

func reference(t reflect.Type) string { return referencePrefix + typeName(t) }

// The extensions of Kubernetes: the kind of a schema, and how kubectl merges a list.
const (
	extensionKind          = "x-kubernetes-group-version-kind"
	extensionPatchKey      = "x-kubernetes-patch-merge-key"
	extensionPatchStrategy = "x-kubernetes-patch-strategy"
)

// scalars are the types that are encoded as one value.
var scalars = map[reflect.Type]map[string]any{
	reflect.TypeFor[metav1.Time]():          {"type": "string", "format": "date-time"},
	reflect.TypeFor[metav1.MicroTime]():     {"type": "string", "format": "date-time"},
	reflect.TypeFor[metav1.Duration]():      {"type": "string"},
	reflect.TypeFor[quantity.Quantity]():    {"type": "string"},
	reflect.TypeFor[intstr.IntOrString]():   {"type": "string", "format": "int-or-string"},
	reflect.TypeFor[runtime.RawExtension](): {"type": "object"},
	reflect.TypeFor[metav1.FieldsV1]():      {"type": "object"},
}

// define adds the schema of a struct and of its fields, and returns it.
func (s schemas) define(t reflect.Type) map[string]any {
	name := typeName(t)
	if known, ok := s[name]; ok {
		return known
	}
	schema := map[string]any{"type": "object"}
	s[name] = schema // added before its fields, as some types are recursive
	docs := docsOf(t)
	if docs[""] != "" {
		schema["description"] = docs[""]
	}
	properties := map[string]any{}
	var required []string
	s.fields(t, properties, &required, docs)
	schema["properties"] = properties
	if required != nil {
		schema["required"] = required
	}
	return schema
}

// fields adds the fields of a struct and of its embedded structs.
func (s schemas) fields(t reflect.Type, properties map[string]any, required *[]string, docs map[string]string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case name == "":
			s.fields(f.Type, properties, required, docsOf(f.Type))
		default:
			of := s.schemaOf(f.Type)
			if doc := docs[name]; doc != "" {
				of["description"] = doc
			}
			for tag, extension := range map[string]string{"patchMergeKey": extensionPatchKey,
				"patchStrategy": extensionPatchStrategy} {
				if value := f.Tag.Get(tag); value != "" {
					of[extension] = value
				}
			}
			properties[name] = of
			if !strings.Contains(options, "omit") {
				*required = append(*required, name)
			}
		}
	}
}

// schemaOf returns the schema of a field with the given type.
func (s schemas) schemaOf(t reflect.Type) map[string]any {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if scalar, ok := scalars[t]; ok {
		copied := map[string]any{}
		for k, v := range scalar {
			copied[k] = v
		}
		return copied
	}
	switch t.Kind() {
	case reflect.Struct:
		s.define(t)
		return map[string]any{"allOf": []any{map[string]string{"$ref": reference(t)}}}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return map[string]any{"type": "string", "format": "byte"}
		}
		return map[string]any{"type": "array", "items": s.schemaOf(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": s.schemaOf(t.Elem())}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int32, reflect.Uint32:
		return map[string]any{"type": "integer", "format": "int32"}
	case reflect.Int64, reflect.Uint64:
		return map[string]any{"type": "integer", "format": "int64"}
	case reflect.Float64:
		return map[string]any{"type": "number", "format": "double"}
	}
	return map[string]any{"type": "string"}
}

// docsOf returns the descriptions of the fields of a type.
func docsOf(t reflect.Type) map[string]string {
	if d, ok := reflect.New(t).Interface().(interface{ SwaggerDoc() map[string]string }); ok {
		return d.SwaggerDoc()
	}
	return nil
}
