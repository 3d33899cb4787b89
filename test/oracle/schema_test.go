package oracle

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logs "k8s.io/component-base/logs/api/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/podstead/podstead/config"
)

var update = flag.Bool("update", false, "rewrite docs/config.schema.json")

const schemaFile = "../../docs/config.schema.json"

type object = map[string]any

// enums are the values of fields that have only some, by path.
var enums = func() map[string][]any {
	all := map[string][]any{}
	for _, field := range config.Fields() {
		for _, value := range field.Values {
			all[field.Path] = append(all[field.Path], value)
		}
	}
	return all
}()

var duration = object{"type": []any{"string", "null"},
	"pattern": `^[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)?([0-9.]*(ns|us|µs|ms|s|m|h))*$`}

// typeSchema returns the schema of a Go type. Each value can be null, which is like a field
// that is not set.
func typeSchema(typ reflect.Type, path string, describe func(path string) string) object {
	switch typ {
	case reflect.TypeFor[metav1.Duration]():
		return maps.Clone(duration)
	case reflect.TypeFor[resource.Quantity](), reflect.TypeFor[resource.QuantityValue]():
		return object{"type": []any{"string", "number", "null"}}
	case reflect.TypeFor[logs.TimeOrMetaDuration](): // a duration or a number of nanoseconds
		return object{"type": []any{"string", "integer", "null"}}
	case reflect.TypeFor[metav1.Time]():
		return object{"type": []any{"string", "null"}}
	}
	switch typ.Kind() {
	case reflect.Pointer:
		return typeSchema(typ.Elem(), path, describe)
	case reflect.Struct:
		properties := object{}
		addProperties(typ, path, describe, properties)
		return object{"type": []any{"object", "null"}, "additionalProperties": false, "properties": properties}
	case reflect.Map:
		values := typeSchema(typ.Elem(), path+".*", describe)
		if typ.Elem().Kind() == reflect.String {
			values["type"] = []any{"string", "number", "null"} // quantities may be numbers
		}
		return object{"type": []any{"object", "null"}, "additionalProperties": values}
	case reflect.Slice:
		return object{"type": []any{"array", "null"}, "items": typeSchema(typ.Elem(), path+"[]", describe)}
	case reflect.Bool:
		return object{"type": []any{"boolean", "null"}}
	case reflect.Int32, reflect.Int64, reflect.Uint32:
		return object{"type": []any{"integer", "null"}}
	case reflect.String:
		return object{"type": []any{"string", "null"}}
	case reflect.Float64:
		return object{"type": []any{"number", "null"}}
	case reflect.Interface: // the formats of the kubelet's log
		return object{}
	}
	panic(fmt.Sprintf("%s: no schema of a %s", path, typ))
}

func addProperties(typ reflect.Type, path string, describe func(string) string, to object) {
	for i := range typ.NumField() {
		field := typ.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Type == reflect.TypeFor[metav1.TypeMeta]() {
			continue
		}
		if name == "" {
			addProperties(field.Type, path, describe, to)
			continue
		}
		at := strings.TrimPrefix(path+"."+name, ".")
		value := typeSchema(field.Type, at, describe)
		if text := describe(at); text != "" {
			value["description"] = text
		}
		to[name] = withEnum(at, value)
	}
}

func withEnum(path string, value object) object {
	if values := enums[path]; values != nil {
		value["enum"] = append(slices.Clone(values), nil)
	}
	return value
}

// flagTypes are the types of the flags of a PodsteadConfiguration's fields.
var flagTypes = map[string]object{
	"string": {"type": []any{"string", "null"}}, "bool": {"type": []any{"boolean", "null"}},
	"int":            {"type": []any{"integer", "null"}},
	"duration":       duration,
	"stringArray":    {"type": []any{"array", "null"}, "items": object{"type": "string"}},
	"stringToString": {"type": []any{"object", "null"}, "additionalProperties": object{"type": "string"}},
}

// ownTypes are the types of the fields of a PodsteadConfiguration that have no flag.
var ownTypes = map[string]object{
	"localDevices": {"type": []any{"object", "null"}, "additionalProperties": object{
		"type": []any{"object", "null"}, "additionalProperties": false, "properties": object{
			"paths": object{"type": []any{"array", "null"}, "items": object{"type": "string"},
				"description": "absolute paths of device nodes, or patterns of them, such as /dev/ttyUSB*"},
			"cdiDevices": object{"type": []any{"array", "null"}, "items": object{"type": "string"},
				"description": "names of CDI devices, such as vendor.example/camera=front, instead of paths"},
			"permissions": object{"type": []any{"string", "null"}, "pattern": "^[rwm]+$",
				"description": "permissions of containers: one or more of r, w and m (mknod) (default rw)"},
			"podsPerDevice": object{"type": []any{"integer", "null"}, "minimum": 1,
				"description": "how many pods can have one device at the same time (default 1)"},
		},
	}},
}

// configSchema returns the JSON schema of a document of the configuration file.
func configSchema(t *testing.T) object {
	t.Helper()
	described, own := map[string]string{}, object{}
	for _, field := range config.Fields() {
		text := field.Usage
		if field.Flag != "" {
			text += "; the flag is --" + field.Flag
		}
		described[field.Path] = text
		if field.Kind == "KubeletConfiguration" {
			continue
		}
		value := maps.Clone(flagTypes[field.Type])
		if field.Flag == "" {
			value = maps.Clone(ownTypes[field.Path])
		}
		if value == nil {
			t.Fatalf("%s: no schema of a flag of type %s", field.Path, field.Type)
		}
		value["description"] = text
		own[field.Path] = withEnum(field.Path, value)
	}
	supported := func(path string) string {
		if text := described[path]; text != "" {
			return text
		}
		for name := range described {
			if strings.HasPrefix(name, path+".") || strings.HasPrefix(path, name+".") || strings.HasPrefix(path, name+"[") {
				return ""
			}
		}
		if strings.Contains(path, ".") || strings.Contains(path, "[") {
			return ""
		}
		return "has no effect in podstead; the log names it at the start if it is set to something that podstead does not do"
	}
	properties := object{}
	addProperties(reflect.TypeFor[kubelet.KubeletConfiguration](), "", supported, properties)
	document := func(apiVersion, kind string, properties object) object {
		properties["apiVersion"], properties["kind"] = object{"const": apiVersion}, object{"const": kind}
		return object{"type": "object", "required": []any{"apiVersion", "kind"}, "additionalProperties": false,
			"properties": properties}
	}
	return object{
		"$schema": "http://json-schema.org/draft-07/schema#",
		"title":   "A document of podstead's configuration file",
		"if":      object{"properties": object{"kind": object{"const": "PodsteadConfiguration"}}, "required": []any{"kind"}},
		"then":    document("podstead.io/v1alpha1", "PodsteadConfiguration", own),
		"else":    document("kubelet.config.k8s.io/v1beta1", "KubeletConfiguration", properties),
	}
}

// The schema in docs is that of the code and of the kubelet's types.
func TestConfigSchemaIsCurrent(t *testing.T) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(configSchema(t)); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(schemaFile, text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(schemaFile); err != nil || !bytes.Equal(got, text.Bytes()) {
		t.Fatalf("%s is out of date (%v); regenerate it with: cd test/oracle && go test -run TestConfigSchemaIsCurrent "+
			"-update", schemaFile, err)
	}
}

// validate returns the first violation of the part of JSON schema that is used here.
func validate(schema object, value any, path string) error {
	if condition, ok := schema["if"].(object); ok {
		branch := "then"
		if validate(condition, value, path) != nil {
			branch = "else"
		}
		if err := validate(schema[branch].(object), value, path); err != nil {
			return err
		}
	}
	if want, ok := schema["const"]; ok && value != want {
		return fmt.Errorf("%s: %v is not %v", path, value, want)
	}
	if values, ok := schema["enum"].([]any); ok && !slices.Contains(values, value) {
		return fmt.Errorf("%s: %v is not one of %v", path, value, values)
	}
	if types := schema["type"]; types != nil {
		list, ok := types.([]any)
		if !ok {
			list = []any{types}
		}
		name := map[reflect.Kind]string{reflect.Invalid: "null", reflect.Map: "object", reflect.Slice: "array",
			reflect.String: "string", reflect.Bool: "boolean", reflect.Float64: "number"}[reflect.ValueOf(value).Kind()]
		f, isNumber := value.(float64)
		if !slices.Contains(list, any(name)) &&
			(!isNumber || f != float64(int64(f)) || !slices.Contains(list, any("integer"))) {
			return fmt.Errorf("%s: a %s is not one of %v", path, name, list)
		}
	}
	if text, ok := value.(string); ok && schema["pattern"] != nil &&
		!regexp.MustCompile(schema["pattern"].(string)).MatchString(text) {
		return fmt.Errorf("%s: %q does not match", path, text)
	}
	switch value := value.(type) {
	case []any:
		for i, item := range value {
			if items, ok := schema["items"].(object); ok {
				if err := validate(items, item, fmt.Sprintf("%s[%d]", path, i)); err != nil {
					return err
				}
			}
		}
	case object:
		required, _ := schema["required"].([]any)
		for _, name := range required {
			if _, ok := value[name.(string)]; !ok {
				return fmt.Errorf("%s.%s is missing", path, name)
			}
		}
		properties, _ := schema["properties"].(object)
		for name, field := range value {
			below, ok := properties[name].(object)
			if !ok {
				if below, ok = schema["additionalProperties"].(object); !ok && schema["additionalProperties"] == false {
					return fmt.Errorf("%s.%s is unknown", path, name)
				}
			}
			if below != nil {
				if err := validate(below, field, path+"."+name); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// The schema accepts what podstead accepts, and finds mistakes.
func TestConfigSchema(t *testing.T) {
	data, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	var schema object
	if err := json.Unmarshal(data, &schema); err != nil {
		t.Fatal(err)
	}
	check := func(text string) error {
		t.Helper()
		var value any
		if err := yaml.Unmarshal([]byte(text), &value); err != nil {
			t.Fatal(err)
		}
		return validate(schema, value, "")
	}
	for _, file := range []string{"../../examples/config/config.yaml", "../../config/testdata/kubeadm.yaml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for part := range strings.SplitSeq(string(text), "\n---\n") {
			if err := check(part); err != nil {
				t.Errorf("%s: %v", filepath.Base(file), err)
			}
		}
	}
	const kubeletHead, ownHead = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n",
		"apiVersion: podstead.io/v1alpha1\nkind: PodsteadConfiguration\n"
	for _, valid := range []string{
		kubeletHead + "systemReserved: {cpu: 1, memory: 1Gi}\nfileCheckFrequency: 1m30s\nclusterDNS: null\n",
		kubeletHead + "registerWithTaints: [{key: a, effect: NoSchedule}]\nlogging: {verbosity: 2, format: json}\n",
		ownHead + "nodeLabels: {a: b}\nimageGCPeriod: 5m\nimageAutoUpdateWindows: ['Sat,Sun 02:00-05:00']\ndebug: " +
			"true\nmaximumDeadContainers: -1\n",
		ownHead + "localDevices: {edge.example/serial: {paths: [/dev/ttyUSB*], permissions: rw, podsPerDevice: 2}, " +
			"edge.example/camera: {cdiDevices: [vendor.example/camera=front]}}\n",
	} {
		if err := check(valid); err != nil {
			t.Errorf("%q: %v", valid, err)
		}
	}
	for _, invalid := range []string{
		"kind: KubeletConfiguration\n", kubeletHead + "maxPod: 1\n", kubeletHead + "maxPods: many\n",
		kubeletHead + "maxPods: 1.5\n", kubeletHead + "cgroupDriver: runc\n",
		kubeletHead + "fileCheckFrequency: soon\n", kubeletHead + "authentication: {x509: {caFile: /x}}\n",
		kubeletHead + "rootDir: /x\n",
		ownHead + "rootdir: /x\n", ownHead + "logFormat: xml\n", ownHead + "nodeLabels: {a: 1}\n", ownHead + "debug: 'on'\n",
		ownHead + "imageAutoUpdateWindows: 02:00-05:00\n", ownHead + "maxPods: 1\n",
		ownHead + "localDevices: [/dev/ttyUSB0]\n", ownHead + "localDevices: {edge.example/serial: {path: /dev/ttyUSB0}}\n",
		ownHead + "localDevices: {edge.example/serial: {paths: [/dev/ttyUSB0], permissions: rwx}}\n",
	} {
		if err := check(invalid); err == nil {
			t.Errorf("%q is accepted", invalid)
		}
	}
}
