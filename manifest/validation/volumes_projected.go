package validation

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Limits on the lifetimes of tokens and certificates in seconds, from the API.
const (
	tokenLifetimeMin           = 10 * 60
	tokenLifetimeMax           = 1 << 32
	certificateLifetimeMin     = 60 * 60
	certificateLifetimeMax     = 91 * 24 * 60 * 60
	certificateLifetimeMaxKube = 24 * 60 * 60
	signerDomainMax            = utilvalidation.DNS1123SubdomainMaxLength
	signerNameMax              = signerDomainMax + 1 + utilvalidation.DNS1123LabelMaxLength + 1 +
		utilvalidation.DNS1123SubdomainMaxLength
)

// projected validates a volume that combines the files of several sources.
func (v *validator) projected(path *field.Path, projected *v1.ProjectedVolumeSource) {
	v.fileMode(path.Child("defaultMode"), projected.DefaultMode)
	files := fileSet{}
	for i := range projected.Sources {
		at := path.Child("sources").Index(i)
		sources := 0
		for _, present := range []bool{
			v.projectedObjects(at, &projected.Sources[i], files),
			v.projectedConfigMap(at, projected.Sources[i].ConfigMap, files),
			v.projectedDownward(at, projected.Sources[i].DownwardAPI, files),
			v.projectedToken(at, projected.Sources[i].ServiceAccountToken),
			v.trustBundle(at, projected.Sources[i].ClusterTrustBundle, files),
			v.podCertificate(at, projected.Sources[i].PodCertificate, files),
		} {
			if present {
				sources++
			}
		}
		if sources > 1 {
			v.forbidden(at, "must have only one source; add another item for the next")
		}
	}
}

func (v *validator) projectedObjects(at *field.Path, projection *v1.VolumeProjection, files fileSet) bool {
	s := projection.Secret
	if s == nil {
		return false
	}
	v.requireSet(at.Child("secret", "name"), s.Name, "must be the name of the Secret")
	v.keyItems(at.Child("secret", "items"), s.Items, files)
	return true
}

func (v *validator) projectedConfigMap(at *field.Path, s *v1.ConfigMapProjection, files fileSet) bool {
	if s == nil {
		return false
	}
	v.requireSet(at.Child("configMap", "name"), s.Name, "must be the name of the ConfigMap")
	v.keyItems(at.Child("configMap", "items"), s.Items, files)
	return true
}

func (v *validator) projectedDownward(at *field.Path, s *v1.DownwardAPIProjection, files fileSet) bool {
	if s == nil {
		return false
	}
	v.downwardItems(at.Child("downwardAPI", "items"), s.Items, files)
	return true
}

func (v *validator) projectedToken(at *field.Path, s *v1.ServiceAccountTokenProjection) bool {
	if s == nil {
		return false
	}
	path := at.Child("serviceAccountToken")
	if s.ExpirationSeconds != nil {
		v.inRange(path.Child("expirationSeconds"), *s.ExpirationSeconds, tokenLifetimeMin, tokenLifetimeMax)
	}
	if v.requireSet(path.Child("path"), s.Path, "must be the file's path in the volume") {
		v.fileName(path.Child("path"), s.Path)
	}
	if v.spec.ServiceAccountName == "" {
		v.forbidden(path, "needs spec.serviceAccountName")
	}
	return true
}

func (v *validator) trustBundle(at *field.Path, s *v1.ClusterTrustBundleProjection, files fileSet) bool {
	if s == nil {
		return false
	}
	path := at.Child("clusterTrustBundle")
	switch {
	case s.Name != nil && s.SignerName != nil:
		v.invalid(path, *s.Name, "must have one of name, signerName, not both")
	case s.Name != nil:
		v.trustBundleName(path.Child("name"), *s.Name)
		if s.LabelSelector != nil {
			v.invalid(path.Child("labelSelector"), "", "must be omitted when name is set")
		}
	case s.SignerName != nil:
		v.signerName(path.Child("signerName"), *s.SignerName)
		v.labelSelector(path.Child("labelSelector"), s.LabelSelector)
	default:
		v.required(path, "must have one of name, signerName")
	}
	if v.requireSet(path.Child("path"), s.Path, "must be the file's path in the volume") {
		v.fileName(path.Child("path"), s.Path)
	}
	v.addFile(path.Child("path"), files, s.Path)
	return true
}

// trustBundleName validates NAME, or domain:signer:NAME for a bundle of a
// signer.
func (v *validator) trustBundleName(path *field.Path, name string) {
	if v.requireSet(path, name, "must be the name of a ClusterTrustBundle") {
		colon := strings.LastIndex(name, ":")
		v.rules(path, name, validation.NameIsDNSSubdomain(name[colon+1:], false))
		if colon == 0 || colon > 0 && strings.Contains(name[:colon], "/") {
			v.invalid(path, name, "must have the name of the signer before the last colon, with a colon in place of its slash")
		}
	}
}

func (v *validator) podCertificate(at *field.Path, s *v1.PodCertificateProjection, files fileSet) bool {
	if s == nil {
		return false
	}
	path := at.Child("podCertificate")
	v.signerName(path.Child("signerName"), s.SignerName)
	v.userAnnotations(path.Child("userAnnotations"), s.UserAnnotations)
	keyTypes := []string{"RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"}
	oneOf(v, path.Child("keyType"), s.KeyType, keyTypes...)
	if seconds := s.MaxExpirationSeconds; seconds != nil {
		most := int64(certificateLifetimeMax)
		if host, _, _ := strings.Cut(s.SignerName, "/"); host == "kubernetes.io" ||
			strings.HasSuffix(host, ".kubernetes.io") {
			most = certificateLifetimeMaxKube
		}
		v.inRange(path.Child("maxExpirationSeconds"), int64(*seconds), certificateLifetimeMin, most)
	}
	paths := 0
	for _, file := range []struct{ field, name string }{
		{"credentialBundlePath", s.CredentialBundlePath},
		{"keyPath", s.KeyPath},
		{"certificateChainPath", s.CertificateChainPath},
	} {
		if file.name != "" {
			paths++
			v.fileName(path.Child(file.field), file.name)
			v.addFile(path.Child(file.field), files, file.name)
		}
	}
	if paths == 0 {
		v.required(path, "must have at least one of credentialBundlePath, keyPath, certificateChainPath")
	}
	return true
}

func (v *validator) userAnnotations(path *field.Path, annotations map[string]string) {
	for key := range sortedMap(annotations) {
		v.add(utilvalidation.IsDomainPrefixedKey(path, strings.ToLower(key))...)
	}
	if validation.ValidateAnnotationsSize(annotations) != nil {
		v.add(field.TooLong(path, "", validation.TotalAnnotationSizeLimitB))
	}
}

// signerName validates example.com/signer.
func (v *validator) signerName(path *field.Path, name string) {
	const form = "must be the domain and the name of a signer, such as example.com/signer"
	if !v.requireSet(path, name, form) {
		return
	}
	domain, signer, ok := strings.Cut(name, "/")
	if !ok || strings.Contains(signer, "/") {
		v.invalid(path, name, form)
		return
	}
	if len(domain) > signerDomainMax {
		v.add(field.TooLong(path, domain, signerDomainMax))
	}
	labels := strings.Split(domain, ".")
	if len(labels) < 2 {
		v.invalid(path, name, "must have a domain of two parts or more")
	}
	for _, label := range labels {
		if messages := utilvalidation.IsDNS1123Label(label); len(messages) > 0 {
			v.rules(path, name, messages)
			break
		}
	}
	for _, part := range strings.Split(signer, ".") {
		if messages := utilvalidation.IsDNS1123Subdomain(part); len(messages) > 0 {
			v.rules(path, name, messages)
			break
		}
	}
	if len(name) > signerNameMax {
		v.add(field.TooLong(path, name, signerNameMax))
	}
}
