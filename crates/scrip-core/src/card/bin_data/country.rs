//! Countries of issuers, by ISO 3166-1.

/// A country that has a code.
#[derive(Debug, Clone, Copy)]
pub struct Country(&'static Entry);

#[derive(Debug)]
struct Entry {
    alpha2: &'static str,
    alpha3: &'static str,
    numeric: &'static str,
    name: &'static str,
}

impl Country {
    /// By any of the three codes, whatever its case.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        // The usual one, by halves.
        if let Ok(&[first, second]) = <&[u8; 2]>::try_from(text.as_bytes()) {
            let code = [first.to_ascii_uppercase(), second.to_ascii_uppercase()];
            let found = COUNTRIES.binary_search_by(|it| it.alpha2.as_bytes().cmp(&code)).ok()?;
            return COUNTRIES.get(found).map(Self);
        }
        let is = |code: &str| code.eq_ignore_ascii_case(text);
        COUNTRIES.iter().find(|it| is(it.alpha3) || is(it.numeric)).map(Self)
    }

    #[must_use]
    pub fn alpha2(self) -> &'static str {
        self.0.alpha2
    }

    #[must_use]
    pub fn numeric(self) -> &'static str {
        self.0.numeric
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// Whether its issuers must authenticate whoever pays online: the second payment services
    /// directive holds in the European Economic Area, with the parts of member states that have a
    /// code of their own, and the United Kingdom kept it.
    #[must_use]
    pub fn requires_sca(self) -> bool {
        REQUIRE_SCA.contains(&self.0.alpha2)
    }
}

impl PartialEq for Country {
    fn eq(&self, other: &Self) -> bool {
        self.0.alpha2 == other.0.alpha2
    }
}

impl Eq for Country {}

impl std::hash::Hash for Country {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.alpha2.hash(state);
    }
}

#[rustfmt::skip]
const REQUIRE_SCA: &[&str] = &[
    // The European Union.
    "AT", "BE", "BG", "CY", "CZ", "DE", "DK", "EE", "ES", "FI", "FR", "GR", "HR", "HU", "IE", "IT",
    "LT", "LU", "LV", "MT", "NL", "PL", "PT", "RO", "SE", "SI", "SK",
    // Its parts with a code of their own: Aland, and overseas departments of France.
    "AX", "GF", "GP", "MF", "MQ", "RE", "YT",
    // The others of the area.
    "IS", "LI", "NO",
    "GB",
];

const fn entry(
    alpha2: &'static str,
    alpha3: &'static str,
    numeric: &'static str,
    name: &'static str,
) -> Entry {
    Entry { alpha2, alpha3, numeric, name }
}

static COUNTRIES: [Entry; 249] = [
    entry("AD", "AND", "020", "Andorra"),
    entry("AE", "ARE", "784", "United Arab Emirates"),
    entry("AF", "AFG", "004", "Afghanistan"),
    entry("AG", "ATG", "028", "Antigua and Barbuda"),
    entry("AI", "AIA", "660", "Anguilla"),
    entry("AL", "ALB", "008", "Albania"),
    entry("AM", "ARM", "051", "Armenia"),
    entry("AO", "AGO", "024", "Angola"),
    entry("AQ", "ATA", "010", "Antarctica"),
    entry("AR", "ARG", "032", "Argentina"),
    entry("AS", "ASM", "016", "American Samoa"),
    entry("AT", "AUT", "040", "Austria"),
    entry("AU", "AUS", "036", "Australia"),
    entry("AW", "ABW", "533", "Aruba"),
    entry("AX", "ALA", "248", "Åland Islands"),
    entry("AZ", "AZE", "031", "Azerbaijan"),
    entry("BA", "BIH", "070", "Bosnia and Herzegovina"),
    entry("BB", "BRB", "052", "Barbados"),
    entry("BD", "BGD", "050", "Bangladesh"),
    entry("BE", "BEL", "056", "Belgium"),
    entry("BF", "BFA", "854", "Burkina Faso"),
    entry("BG", "BGR", "100", "Bulgaria"),
    entry("BH", "BHR", "048", "Bahrain"),
    entry("BI", "BDI", "108", "Burundi"),
    entry("BJ", "BEN", "204", "Benin"),
    entry("BL", "BLM", "652", "Saint Barthélemy"),
    entry("BM", "BMU", "060", "Bermuda"),
    entry("BN", "BRN", "096", "Brunei"),
    entry("BO", "BOL", "068", "Bolivia"),
    entry("BQ", "BES", "535", "Caribbean Netherlands"),
    entry("BR", "BRA", "076", "Brazil"),
    entry("BS", "BHS", "044", "Bahamas"),
    entry("BT", "BTN", "064", "Bhutan"),
    entry("BV", "BVT", "074", "Bouvet Island"),
    entry("BW", "BWA", "072", "Botswana"),
    entry("BY", "BLR", "112", "Belarus"),
    entry("BZ", "BLZ", "084", "Belize"),
    entry("CA", "CAN", "124", "Canada"),
    entry("CC", "CCK", "166", "Cocos (Keeling) Islands"),
    entry("CD", "COD", "180", "Congo - Kinshasa"),
    entry("CF", "CAF", "140", "Central African Republic"),
    entry("CG", "COG", "178", "Congo - Brazzaville"),
    entry("CH", "CHE", "756", "Switzerland"),
    entry("CI", "CIV", "384", "Côte d’Ivoire"),
    entry("CK", "COK", "184", "Cook Islands"),
    entry("CL", "CHL", "152", "Chile"),
    entry("CM", "CMR", "120", "Cameroon"),
    entry("CN", "CHN", "156", "China"),
    entry("CO", "COL", "170", "Colombia"),
    entry("CR", "CRI", "188", "Costa Rica"),
    entry("CU", "CUB", "192", "Cuba"),
    entry("CV", "CPV", "132", "Cape Verde"),
    entry("CW", "CUW", "531", "Curaçao"),
    entry("CX", "CXR", "162", "Christmas Island"),
    entry("CY", "CYP", "196", "Cyprus"),
    entry("CZ", "CZE", "203", "Czechia"),
    entry("DE", "DEU", "276", "Germany"),
    entry("DJ", "DJI", "262", "Djibouti"),
    entry("DK", "DNK", "208", "Denmark"),
    entry("DM", "DMA", "212", "Dominica"),
    entry("DO", "DOM", "214", "Dominican Republic"),
    entry("DZ", "DZA", "012", "Algeria"),
    entry("EC", "ECU", "218", "Ecuador"),
    entry("EE", "EST", "233", "Estonia"),
    entry("EG", "EGY", "818", "Egypt"),
    entry("EH", "ESH", "732", "Western Sahara"),
    entry("ER", "ERI", "232", "Eritrea"),
    entry("ES", "ESP", "724", "Spain"),
    entry("ET", "ETH", "231", "Ethiopia"),
    entry("FI", "FIN", "246", "Finland"),
    entry("FJ", "FJI", "242", "Fiji"),
    entry("FK", "FLK", "238", "Falkland Islands"),
    entry("FM", "FSM", "583", "Micronesia"),
    entry("FO", "FRO", "234", "Faroe Islands"),
    entry("FR", "FRA", "250", "France"),
    entry("GA", "GAB", "266", "Gabon"),
    entry("GB", "GBR", "826", "United Kingdom"),
    entry("GD", "GRD", "308", "Grenada"),
    entry("GE", "GEO", "268", "Georgia"),
    entry("GF", "GUF", "254", "French Guiana"),
    entry("GG", "GGY", "831", "Guernsey"),
    entry("GH", "GHA", "288", "Ghana"),
    entry("GI", "GIB", "292", "Gibraltar"),
    entry("GL", "GRL", "304", "Greenland"),
    entry("GM", "GMB", "270", "Gambia"),
    entry("GN", "GIN", "324", "Guinea"),
    entry("GP", "GLP", "312", "Guadeloupe"),
    entry("GQ", "GNQ", "226", "Equatorial Guinea"),
    entry("GR", "GRC", "300", "Greece"),
    entry("GS", "SGS", "239", "South Georgia and South Sandwich Islands"),
    entry("GT", "GTM", "320", "Guatemala"),
    entry("GU", "GUM", "316", "Guam"),
    entry("GW", "GNB", "624", "Guinea-Bissau"),
    entry("GY", "GUY", "328", "Guyana"),
    entry("HK", "HKG", "344", "Hong Kong"),
    entry("HM", "HMD", "334", "Heard and McDonald Islands"),
    entry("HN", "HND", "340", "Honduras"),
    entry("HR", "HRV", "191", "Croatia"),
    entry("HT", "HTI", "332", "Haiti"),
    entry("HU", "HUN", "348", "Hungary"),
    entry("ID", "IDN", "360", "Indonesia"),
    entry("IE", "IRL", "372", "Ireland"),
    entry("IL", "ISR", "376", "Israel"),
    entry("IM", "IMN", "833", "Isle of Man"),
    entry("IN", "IND", "356", "India"),
    entry("IO", "IOT", "086", "British Indian Ocean Territory"),
    entry("IQ", "IRQ", "368", "Iraq"),
    entry("IR", "IRN", "364", "Iran"),
    entry("IS", "ISL", "352", "Iceland"),
    entry("IT", "ITA", "380", "Italy"),
    entry("JE", "JEY", "832", "Jersey"),
    entry("JM", "JAM", "388", "Jamaica"),
    entry("JO", "JOR", "400", "Jordan"),
    entry("JP", "JPN", "392", "Japan"),
    entry("KE", "KEN", "404", "Kenya"),
    entry("KG", "KGZ", "417", "Kyrgyzstan"),
    entry("KH", "KHM", "116", "Cambodia"),
    entry("KI", "KIR", "296", "Kiribati"),
    entry("KM", "COM", "174", "Comoros"),
    entry("KN", "KNA", "659", "Saint Kitts and Nevis"),
    entry("KP", "PRK", "408", "North Korea"),
    entry("KR", "KOR", "410", "South Korea"),
    entry("KW", "KWT", "414", "Kuwait"),
    entry("KY", "CYM", "136", "Cayman Islands"),
    entry("KZ", "KAZ", "398", "Kazakhstan"),
    entry("LA", "LAO", "418", "Laos"),
    entry("LB", "LBN", "422", "Lebanon"),
    entry("LC", "LCA", "662", "Saint Lucia"),
    entry("LI", "LIE", "438", "Liechtenstein"),
    entry("LK", "LKA", "144", "Sri Lanka"),
    entry("LR", "LBR", "430", "Liberia"),
    entry("LS", "LSO", "426", "Lesotho"),
    entry("LT", "LTU", "440", "Lithuania"),
    entry("LU", "LUX", "442", "Luxembourg"),
    entry("LV", "LVA", "428", "Latvia"),
    entry("LY", "LBY", "434", "Libya"),
    entry("MA", "MAR", "504", "Morocco"),
    entry("MC", "MCO", "492", "Monaco"),
    entry("MD", "MDA", "498", "Moldova"),
    entry("ME", "MNE", "499", "Montenegro"),
    entry("MF", "MAF", "663", "Saint Martin"),
    entry("MG", "MDG", "450", "Madagascar"),
    entry("MH", "MHL", "584", "Marshall Islands"),
    entry("MK", "MKD", "807", "North Macedonia"),
    entry("ML", "MLI", "466", "Mali"),
    entry("MM", "MMR", "104", "Myanmar"),
    entry("MN", "MNG", "496", "Mongolia"),
    entry("MO", "MAC", "446", "Macao"),
    entry("MP", "MNP", "580", "Northern Mariana Islands"),
    entry("MQ", "MTQ", "474", "Martinique"),
    entry("MR", "MRT", "478", "Mauritania"),
    entry("MS", "MSR", "500", "Montserrat"),
    entry("MT", "MLT", "470", "Malta"),
    entry("MU", "MUS", "480", "Mauritius"),
    entry("MV", "MDV", "462", "Maldives"),
    entry("MW", "MWI", "454", "Malawi"),
    entry("MX", "MEX", "484", "Mexico"),
    entry("MY", "MYS", "458", "Malaysia"),
    entry("MZ", "MOZ", "508", "Mozambique"),
    entry("NA", "NAM", "516", "Namibia"),
    entry("NC", "NCL", "540", "New Caledonia"),
    entry("NE", "NER", "562", "Niger"),
    entry("NF", "NFK", "574", "Norfolk Island"),
    entry("NG", "NGA", "566", "Nigeria"),
    entry("NI", "NIC", "558", "Nicaragua"),
    entry("NL", "NLD", "528", "Netherlands"),
    entry("NO", "NOR", "578", "Norway"),
    entry("NP", "NPL", "524", "Nepal"),
    entry("NR", "NRU", "520", "Nauru"),
    entry("NU", "NIU", "570", "Niue"),
    entry("NZ", "NZL", "554", "New Zealand"),
    entry("OM", "OMN", "512", "Oman"),
    entry("PA", "PAN", "591", "Panama"),
    entry("PE", "PER", "604", "Peru"),
    entry("PF", "PYF", "258", "French Polynesia"),
    entry("PG", "PNG", "598", "Papua New Guinea"),
    entry("PH", "PHL", "608", "Philippines"),
    entry("PK", "PAK", "586", "Pakistan"),
    entry("PL", "POL", "616", "Poland"),
    entry("PM", "SPM", "666", "Saint Pierre and Miquelon"),
    entry("PN", "PCN", "612", "Pitcairn Islands"),
    entry("PR", "PRI", "630", "Puerto Rico"),
    entry("PS", "PSE", "275", "Palestine"),
    entry("PT", "PRT", "620", "Portugal"),
    entry("PW", "PLW", "585", "Palau"),
    entry("PY", "PRY", "600", "Paraguay"),
    entry("QA", "QAT", "634", "Qatar"),
    entry("RE", "REU", "638", "Réunion"),
    entry("RO", "ROU", "642", "Romania"),
    entry("RS", "SRB", "688", "Serbia"),
    entry("RU", "RUS", "643", "Russia"),
    entry("RW", "RWA", "646", "Rwanda"),
    entry("SA", "SAU", "682", "Saudi Arabia"),
    entry("SB", "SLB", "090", "Solomon Islands"),
    entry("SC", "SYC", "690", "Seychelles"),
    entry("SD", "SDN", "729", "Sudan"),
    entry("SE", "SWE", "752", "Sweden"),
    entry("SG", "SGP", "702", "Singapore"),
    entry("SH", "SHN", "654", "Saint Helena"),
    entry("SI", "SVN", "705", "Slovenia"),
    entry("SJ", "SJM", "744", "Svalbard and Jan Mayen"),
    entry("SK", "SVK", "703", "Slovakia"),
    entry("SL", "SLE", "694", "Sierra Leone"),
    entry("SM", "SMR", "674", "San Marino"),
    entry("SN", "SEN", "686", "Senegal"),
    entry("SO", "SOM", "706", "Somalia"),
    entry("SR", "SUR", "740", "Suriname"),
    entry("SS", "SSD", "728", "South Sudan"),
    entry("ST", "STP", "678", "São Tomé and Príncipe"),
    entry("SV", "SLV", "222", "El Salvador"),
    entry("SX", "SXM", "534", "Sint Maarten"),
    entry("SY", "SYR", "760", "Syria"),
    entry("SZ", "SWZ", "748", "Eswatini"),
    entry("TC", "TCA", "796", "Turks and Caicos Islands"),
    entry("TD", "TCD", "148", "Chad"),
    entry("TF", "ATF", "260", "French Southern Territories"),
    entry("TG", "TGO", "768", "Togo"),
    entry("TH", "THA", "764", "Thailand"),
    entry("TJ", "TJK", "762", "Tajikistan"),
    entry("TK", "TKL", "772", "Tokelau"),
    entry("TL", "TLS", "626", "Timor-Leste"),
    entry("TM", "TKM", "795", "Turkmenistan"),
    entry("TN", "TUN", "788", "Tunisia"),
    entry("TO", "TON", "776", "Tonga"),
    entry("TR", "TUR", "792", "Türkiye"),
    entry("TT", "TTO", "780", "Trinidad and Tobago"),
    entry("TV", "TUV", "798", "Tuvalu"),
    entry("TW", "TWN", "158", "Taiwan"),
    entry("TZ", "TZA", "834", "Tanzania"),
    entry("UA", "UKR", "804", "Ukraine"),
    entry("UG", "UGA", "800", "Uganda"),
    entry("UM", "UMI", "581", "U.S. Outlying Islands"),
    entry("US", "USA", "840", "United States"),
    entry("UY", "URY", "858", "Uruguay"),
    entry("UZ", "UZB", "860", "Uzbekistan"),
    entry("VA", "VAT", "336", "Vatican City"),
    entry("VC", "VCT", "670", "Saint Vincent and Grenadines"),
    entry("VE", "VEN", "862", "Venezuela"),
    entry("VG", "VGB", "092", "British Virgin Islands"),
    entry("VI", "VIR", "850", "U.S. Virgin Islands"),
    entry("VN", "VNM", "704", "Vietnam"),
    entry("VU", "VUT", "548", "Vanuatu"),
    entry("WF", "WLF", "876", "Wallis and Futuna"),
    entry("WS", "WSM", "882", "Samoa"),
    entry("YE", "YEM", "887", "Yemen"),
    entry("YT", "MYT", "175", "Mayotte"),
    entry("ZA", "ZAF", "710", "South Africa"),
    entry("ZM", "ZMB", "894", "Zambia"),
    entry("ZW", "ZWE", "716", "Zimbabwe"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_in_order_and_lead_back() {
        assert!(COUNTRIES.is_sorted_by(|one, next| one.alpha2 < next.alpha2));
        for entry in &COUNTRIES {
            for code in [entry.alpha2, entry.alpha3, entry.numeric] {
                assert_eq!(Country::parse(code).unwrap().alpha2(), entry.alpha2, "{code}");
            }
            assert!(entry.numeric.len() == 3 && entry.numeric.parse::<u16>().is_ok());
            assert!(!entry.name.is_empty());
        }
        let france = Country::parse("fr").unwrap();
        assert_eq!((france.alpha2(), france.numeric(), france.name()), ("FR", "250", "France"));
        assert_eq!(Country::parse("XX"), None);
        assert_eq!(Country::parse(""), None);
    }

    #[track_caller]
    fn check(code: &str, expected: bool) {
        assert_eq!(Country::parse(code).unwrap().requires_sca(), expected, "{code}");
    }

    #[test]
    fn where_strong_authentication_is_required() {
        for code in ["FR", "DE", "NO", "IS", "LI", "GB", "RE"] {
            check(code, true);
        }
        for code in ["US", "CH", "TR", "RU", "BR", "JE"] {
            check(code, false);
        }
        // None of them is misspelt: 27 members, 7 parts, 3 others, and the United Kingdom.
        assert_eq!(REQUIRE_SCA.iter().filter_map(|it| Country::parse(it)).count(), 38);
    }
}
