// Command sbom checks bills of materials against CycloneDX' own schema, and that CycloneDX' own
// library reads all of them:
//
//	cd test/oracle && go run ./sbom FILE...
//
// The schema comes with the module of the library.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(files []string) error {
	if len(files) == 0 {
		return errors.New("no file given")
	}
	schema, err := loadSchema()
	if err != nil {
		return err
	}
	var errs []error
	for _, file := range files {
		if err := check(schema, file); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", file, err))
		}
	}
	return errors.Join(errs...)
}

// schemaURL is the name under which the schemas of CycloneDX refer to each other.
const schemaURL = "http://cyclonedx.org/schema/"

// loadSchema returns the schema of CycloneDX 1.6. It looks nothing up in a network.
func loadSchema() (*jsonschema.Schema, error) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go").Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	for name, file := range map[string]string{"bom-1.6.schema.json": "bom-1.6.schema.json",
		"spdx.schema.json": "spdx.schema.json", "jsf-0.82.schema.json": "jsf-0.82.schemax.json"} {
		data, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "schema", file))
		if err != nil {
			return nil, err
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if err := c.AddResource(schemaURL+name, doc); err != nil {
			return nil, err
		}
	}
	return c.Compile(schemaURL + "bom-1.6.schema.json")
}

// check reports what is wrong with a bill of materials, or with what it reports about itself.
func check(schema *jsonschema.Schema, file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return err
	}
	if err := schema.Validate(doc); err != nil {
		return err
	}
	strict := json.NewDecoder(bytes.NewReader(data))
	strict.DisallowUnknownFields()
	var bom cyclonedx.BOM
	if err := strict.Decode(&bom); err != nil {
		return err
	}
	if bom.SpecVersion != cyclonedx.SpecVersion1_6 || bom.Metadata == nil || bom.Metadata.Component == nil ||
		bom.Components == nil || len(*bom.Components) < 10 {
		return errors.New("the version, the component it is about, or what that consists of is missing")
	}
	for _, c := range *bom.Components {
		if c.Version == "" || c.PackageURL == "" || c.Licenses == nil || len(*c.Licenses) == 0 {
			return fmt.Errorf("component %s has no version, package URL or licence", c.Name)
		}
	}
	return nil
}
