package registry

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ParseArtifacts parses the references of artifacts of manifests, of which each has a repository
// of its own. The error quotes the wrong one.
func ParseArtifacts(texts []string) ([]Reference, error) {
	var all []Reference
	for _, text := range texts {
		if host, _, _ := strings.Cut(strings.TrimPrefix(text, "oci://"), "/"); strings.Contains(host, "@") {
			// It is not quoted, since it may contain a password.
			return nil, errors.New("a reference of an artifact has a user name; write it as REGISTRY/REPOSITORY:TAG, and put " +
				"the login into the node's credentials for image pulls")
		}
		r, err := Parse(strings.TrimPrefix(text, "oci://"))
		if err != nil {
			return nil, err
		}
		if host, _, ok := strings.Cut(strings.TrimPrefix(text, "oci://"), "/"); !ok || !strings.ContainsAny(host, ".:") &&
			host != "localhost" {
			return nil, fmt.Errorf("%q has no registry: write it as REGISTRY/REPOSITORY:TAG, such as "+
				"registry.example.com/fleet/web:stable", text)
		}
		if slices.ContainsFunc(all, func(other Reference) bool { return other.Name() == r.Name() }) {
			return nil, fmt.Errorf("the repository %s is given twice: its name is that of the manifests, whatever the tag; "+
				"use one repository for each artifact", r.Name())
		}
		all = append(all, r)
	}
	return all, nil
}
