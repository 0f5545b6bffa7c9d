"""The address rules, address by address."""

import ipaddress

import pytest

from agentic.net.addresses import FetchRefused, client_network, is_public, public_url

NOT_PUBLIC = [
    "0.0.0.0",  # noqa: S104
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.100.100.200",
    "100.127.255.255",
    "127.0.0.1",
    "127.1.2.3",
    "127.255.255.255",
    "168.63.129.16",
    "169.254.169.254",
    "169.254.170.2",
    "169.254.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.1",
    "192.168.255.255",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.7",
    "203.0.113.9",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:8.8.8.8",
    "::ffff:7f00:1",
    "::ffff:0:127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::8.8.8.8",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "2001:2::1",
    "2001:10::1",
    "2001:20::1",
    "2001:db8::1",
    "2002:7f00:1::1",
    "2002:a00:1::",
    "2002:c0a8:101::1",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fdff:ffff::1",
    "fe80::1",
    "fe80::a9fe:a9fe",
    "fec0::1",
    "ff02::1",
    "ff0e::1",
    "2a00:1450::5efe:7f00:1",
    "2a00:1450::200:5efe:10.0.0.1",
]
PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.1",
    "100.63.255.255",
    "100.128.0.1",
    "126.255.255.255",
    "128.0.0.1",
    "169.253.255.255",
    "169.255.0.1",
    "172.15.255.255",
    "172.32.0.1",
    "192.0.1.1",
    "192.167.255.255",
    "192.169.0.1",
    "198.17.255.255",
    "198.20.0.1",
    "223.255.255.255",
    "2001:4860:4860::8888",
    "2001:200::1",
    "2003::1",
    "2606:4700:4700::1111",
    "2a00:1450:4001:81b::200e",
    "3ffe::1",
]


@pytest.mark.promise(26)
@pytest.mark.parametrize("number", NOT_PUBLIC)
def test_no_connection_goes_to_an_address_that_is_not_public(number):
    assert not is_public(ipaddress.ip_address(number))
    host = f"[{number}]" if ":" in number else number
    with pytest.raises(FetchRefused):
        public_url(f"https://{host}/a.png")


@pytest.mark.promise(26)
@pytest.mark.parametrize("number", PUBLIC)
def test_a_public_address_is_asked_also_next_to_a_closed_block(number):
    assert is_public(ipaddress.ip_address(number))
    host = f"[{number}]" if ":" in number else number
    assert public_url(f"https://{host}/a.png").raw_host == number


@pytest.mark.promise(26)
@pytest.mark.parametrize(
    "url",
    [
        "http://2130706433/",  # 127.0.0.1 as one number
        "http://017700000001/",
        "http://0x7f000001/",
        "http://0x7f.0.0.1/",
        "http://0177.0.0.1/",
        "http://127.0.0.0x1/",
        "http://127.1/",
        "http://127.0.1/",
        "http://0/",
        "http://00.0.0.0/",
        "http://1.2.3.4.5/",
        "http://127.0.0.1./",
        "http://256.256.256.256/",
        "http://８.8.8.8.1/",
        "http://１２７.0.0.1/",
        "http://127。0。0。1/",
        "http://①②⑦.⓪.⓪.①/",
        "http://127.0.0.1%2f@example.com/",
        "http://%31%32%37.0.0.1/",
        "http://[::1%25lo]/",
        "http://[fe80::1%25eth0]/",
        "http://[2001:4860:4860::8888%25eth0]/",
        "http://[::ffff:0x7f.1]/",
        "http://[v1.a]/",
        "http://localhost/",
        "http://LOCALHOST/",
        "http://localhost./",
        "http://a.localhost/",
        "http://printer/",
        "http://printer.local/",
        "http://metadata.google.internal/computeMetadata/v1/",
        "http://instance-data.ec2.internal/",
        "http://router.lan/",
        "http://nas.home.arpa/",
        "http://user@example.com/",
        "http://example.com?@127.0.0.1/",
        "http://example.com#@127.0.0.1/",
        "http://user:word@example.com/",
        "http://:word@example.com/",
        "http://@example.com/",
        "http://example.com@127.0.0.1/",
        "http://example.com:22/",
        "http://example.com:6379/",
        "https://example.com:8443/",
        "http://example.com:0/",
        "http://example.com:99999/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "gopher://example.com/",
        "data:text/plain,hello",
        "javascript:alert(1)",
        "unix:///run/redis.sock",
        "redis://example.com/",
        "//example.com/a.png",
        "/a.png",
        "example.com",
        "",
        "http://",
        "http:///a.png",
        "http://[/",
        "http://example.com\\@127.0.0.1/",
        "http://example.com/a\\b",
        "http://exa mple.com/",
        "http://example.com/a\nHost: 127.0.0.1",
        "http://example.com/\x00",
        "http://exam\u200bple.com/\u202e",
        "http://-example.com/",
        "http://exa..mple.com/",
        "http://example.com/" + "a" * 3000,
    ],
)
def test_an_address_that_is_odd_in_any_way_is_refused_before_anybody_is_asked(url):
    with pytest.raises(FetchRefused) as caught:
        public_url(url)
    assert "127" not in caught.value.reason
    assert "\n" not in caught.value.reason


@pytest.mark.promise(26)
@pytest.mark.parametrize(
    ("url", "asked"),
    [
        ("https://example.com", "https://example.com"),
        ("http://example.com:80/a?b=c", "http://example.com/a?b=c"),
        ("https://EXAMPLE.com/%7Ea", "https://example.com/~a"),
        ("https://bücher.example/ü", "https://xn--bcher-kva.example/%C3%BC"),
        ("https://a_b.example.co.uk/", "https://a_b.example.co.uk/"),
        ("https://3com.com/1", "https://3com.com/1"),
        ("https://8.8.8.8/", "https://8.8.8.8/"),
    ],
)
def test_an_ordinary_address_is_asked(url, asked):
    assert str(public_url(url)).rstrip("/") == asked.rstrip("/")


@pytest.mark.parametrize("address", ["http://host.0x7f/", "http://a.b.123/"])
def test_a_name_that_ends_in_a_number_is_none(address: str) -> None:
    with pytest.raises(FetchRefused):
        public_url(address)


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("::1", "::1"),
        ("", ""),
        ("/run/a.sock", "/run/a.sock"),
    ],
)
def test_clients_are_told_apart_by_what_one_person_has(address: str, network: str) -> None:
    assert client_network(address) == network
