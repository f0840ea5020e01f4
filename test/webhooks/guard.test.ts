import assert from 'node:assert/strict'
import { BlockList } from 'node:net'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { Agent, request } from 'undici'
import { ssrfSafeConnect } from '../../src/http/ssrf-connector.ts'
import { addressAllowed, checkTarget, validateUrl } from '../../src/http/ssrf-guard.ts'

const production = { allowHttp: false, allowCidrs: [] }
const plain = { allowHttp: true, allowCidrs: [] }
const development = { allowHttp: true, allowCidrs: ['127.0.0.0/8', '::1/128'] }

const acceptedUrls = [
  'https://example.com',
  'https://example.com/',
  'https://example.com./hook',
  'HTTPS://EXAMPLE.COM/hook',
  'https://example.com:8443/hook?a=b&c=%20d',
  'https://example.com/@user',
  'https://example.com/?mail=a@b.example',
  'https://xn--bcher-kva.example/hook',
  'https://bücher.example/hook',
  'https://ⓔⓧⓐⓜⓟⓛⓔ.com/',
  'https://notlocalhost/',
  'https://localhost.example.com/',
  'https://8.8.8.8/hook',
  'https://134744072/',
  'https://[2606:4700:4700::1111]/hook',
]

const loopbackSpellings = [
  '127.0.0.1',
  '127.0.0.1.',
  '127.0.0.1..',
  '127.1',
  '127.0.1',
  '2130706433',
  '0x7f000001',
  '0x7f.1',
  '0x7f.0.0.0x1',
  '017700000001',
  '0177.0.0.1',
  '0177.0000.0000.0001',
  '１２７.０.０.１',
  '127。0。0。1',
  '①②⑦.⓪.⓪.①',
  '%31%32%37.0.0.1',
  '127.0.0.1%2e',
  '127.0.0\u00ad.1',
  '127.0.0\u200b.1',
  '127.255.255.254',
  '0',
  '0.0.0.0',
  '0x0',
  'localhost',
  'LOCALHOST',
  'localhost.',
  'localhost..',
  'ｌｏｃａｌｈｏｓｔ',
  'loc%61lhost',
  'api.localhost',
  'api.localhost.',
  '[::1]',
  '[0:0:0:0:0:0:0:1]',
  '[::]',
]

const embeddedSpellings = [
  '[::ffff:127.0.0.1]',
  '[::ffff:7f00:1]',
  '[::FFFF:8.8.8.8]',
  '[::7f00:1]',
  '[::127.0.0.1]',
  '[::ffff:0:7f00:1]',
  '[64:ff9b::7f00:1]',
  '[64:ff9b::8.8.8.8]',
  '[64:ff9b:1::1]',
  '[2002:7f00:1::]',
  '[2001::7f00:1]',
]

const privateSpellings = [
  '10.0.0.1',
  '167772161',
  '172.16.0.1',
  '192.168.1.1',
  '0xc0a80101',
  '169.254.169.254',
  '2852039166',
  '0xa9fea9fe',
  '0251.0376.0251.0376',
  '100.100.100.200',
  '192.0.0.192',
  '168.63.129.16',
  '[fd00:ec2::254]',
  '[fe80::1]',
  '[ff02::1]',
]

const misspeltUrls = [
  '',
  'example.com',
  '//example.com/',
  '/hook',
  'https:',
  'https://',
  'https:///example.com/',
  'https:example.com',
  'https:/example.com',
  'ftp://example.com/',
  'file:///etc/passwd',
  'gopher://example.com/',
  'javascript:alert(1)',
  'data:text/plain,x',
  'unix:/run/app.sock',
  'http+unix://%2Frun%2Fapp.sock/',
  'ws://example.com/',
  'https://user@example.com/',
  'https://user:secret@example.com/',
  'https://@example.com/',
  'https://:@example.com/',
  'https://example.com@10.0.0.1/',
  'https://example.com%40@10.0.0.1/',
  'https://example.com#@10.0.0.1/',
  'https://10.0.0.1#@example.com/',
  'https://example.com/#',
  'https://example.com/#part',
  'https://example.com\\@10.0.0.1/',
  'https:\\\\example.com/',
  'https://example.com\\hook',
  ' https://example.com/',
  'https://example.com/ ',
  'https://exam ple.com/',
  'https://example.com/a b',
  'https://exa\tmple.com/',
  'https://example.com/\r\nHost: x',
  'https://example.com/\u0000',
  'https://example.com/\u007f',
  'https://example.com/\u0085',
  'https://example.com/\u00a0',
  'https://example.com/\u2028',
  'https://example.com%00.evil.example/',
  'https://example.com/%00',
  'https://example.com:0/',
  'https://example.com:65536/',
  'https://example.com:https/',
  'https://1.2.3.4.5/',
  'https://256.0.0.1/',
  'https://0x100000000/',
  'https://[::1/',
  'https://[fe80::1%eth0]/',
  'https://[fe80::1%25eth0]/',
  'https://[1.2.3.4]/',
  'https://ex<ample.com/',
  `https://example.com/${'a'.repeat(2048)}`,
  // This name is too long for a TLS ClientHello, and trying to connect to it would break other connections.
  `https://${'a.'.repeat(124)}example/`,
  `https://${'a'.repeat(300)}/`,
]

describe('validateUrl', () => {
  for (const text of acceptedUrls) {
    it(`accepts ${text}`, () => assert.equal(validateUrl(production, text).ok, true))
  }

  for (const [threat, hosts] of [
    ['T-SSRF-01', loopbackSpellings],
    ['T-SSRF-02', embeddedSpellings],
    ['T-SSRF-06', privateSpellings],
  ] as const) {
    for (const host of hosts) {
      it(`${threat} rejects the host ${JSON.stringify(host)} over https and http`, () => {
        assert.equal(validateUrl(production, `https://${host}/hook`).ok, false)
        assert.equal(validateUrl(plain, `http://${host}:8080/hook`).ok, false)
      })
    }
  }

  for (const text of misspeltUrls) {
    it(`T-SSRF-07 rejects ${JSON.stringify(text.slice(0, 60))}`, () => assert.equal(validateUrl(plain, text).ok, false))
  }

  it('accepts a URL of 2048 characters and rejects one of 2049', () => {
    const longest = 'https://example.com/'.padEnd(2048, 'a')
    assert.equal(validateUrl(production, longest).ok, true)
    assert.equal(validateUrl(production, `${longest}a`).ok, false)
  })

  it('accepts http only if the policy allows it', () => {
    assert.deepEqual(validateUrl(production, 'http://example.com/'), { ok: false, reason: 'must use https' })
    assert.equal(validateUrl(plain, 'http://example.com/').ok, true)
  })

  it('accepts only listed ports, and rejects even a default port that is not listed', () => {
    const policy = { ...plain, ports: [443, 8443] }
    const ports = ['https://a.example/', 'https://a.example:8443/', 'https://a.example:22/', 'http://a.example/']
    assert.deepEqual(
      ports.map((text) => validateUrl(policy, text).ok),
      [true, true, false, false],
    )
  })

  it('accepts no private addresses except 127.0.0.0/8 and ::1, in any notation, if the policy allows only these ranges', () => {
    const opened = ['127.1', '0x7f.1', 'localhost', 'api.localhost.', '[::1]']
    assert.ok(opened.every((host) => validateUrl(development, `http://${host}:3000/`).ok))
    const shut = [...embeddedSpellings, ...privateSpellings, '0.0.0.0', '[::]']
    assert.ok(shut.every((host) => !validateUrl(development, `http://${host}:3000/`).ok))
  })

  it('rejects localhost if only one of its two addresses is allowed', () => {
    assert.equal(validateUrl({ allowHttp: true, allowCidrs: ['127.0.0.0/8'] }, 'http://localhost/').ok, false)
  })

  it('returns the parsed URL, or a reason that contains no address', () => {
    const verdict = validateUrl(production, 'https://EXAMPLE.com/a')
    assert.equal(verdict.ok && verdict.url.href, 'https://example.com/a')
    const refused = validateUrl(production, 'https://0xa9fea9fe/')
    assert.deepEqual(refused, { ok: false, reason: 'must not point to a private or reserved address' })
  })

  it('T-SSRF-07 never throws and never accepts a literal address that is not allowed', () => {
    const authority = fc.webAuthority({
      withIPv4: true,
      withIPv4Extended: true,
      withIPv6: true,
      withUserInfo: true,
      withPort: true,
    })
    const texts = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 80 }),
      fc.webUrl({ withFragments: true, withQueryParameters: true }),
      fc.tuple(fc.constantFrom('https://', 'http://', 'HTTP:', 'x:'), authority).map((parts) => parts.join('')),
      fc.tuple(fc.constant('https://'), fc.string({ unit: 'binary', maxLength: 40 })).map((parts) => parts.join('')),
    )
    fc.assert(
      fc.property(texts, (text) => {
        const verdict = validateUrl(plain, text)
        if (!verdict.ok) return verdict.reason.length > 0
        const host = verdict.url.hostname.replace(/^\[|\]$/g, '')
        return !/^[\d.]+$|:/.test(host) || addressAllowed(plain, host)
      }),
      { numRuns: 5000 },
    )
  })
})

// Addresses in special-purpose blocks, including first and last ones.
const deniedAddresses = [
  ...['0.0.0.0', '0.1.2.3', '0.255.255.255', '10.0.0.0', '10.1.2.3', '10.255.255.255'],
  ...['100.64.0.0', '100.100.100.200', '100.127.255.255', '127.0.0.0', '127.0.0.1', '127.255.255.255'],
  ...['169.254.0.0', '169.254.169.254', '169.254.255.255', '172.16.0.0', '172.20.1.1', '172.31.255.255'],
  ...['192.0.0.0', '192.0.0.192', '192.0.0.255', '192.0.2.0', '192.0.2.255', '192.31.196.1', '192.52.193.1'],
  ...['192.88.99.0', '192.88.99.255', '192.168.0.0', '192.168.255.255', '192.175.48.1', '198.18.0.0'],
  ...['198.19.255.255', '198.51.100.0', '198.51.100.255', '203.0.113.0', '203.0.113.255', '224.0.0.0'],
  ...['239.255.255.255', '240.0.0.0', '255.255.255.254', '255.255.255.255', '168.63.129.16'],
  ...[
    '::',
    '::1',
    '::7f00:1',
    '::ffff:127.0.0.1',
    '::ffff:8.8.8.8',
    '::ffff:0:8.8.8.8',
    '64:ff9b::',
    '64:ff9b::808:808',
  ],
  ...['64:ff9b:1::1', '64:ff9b:1:ffff::1', '100::1', '100:0:0:1::1', '1fff:ffff::1', '2001::', '2001::1', '2001:1::1'],
  ...['2001:2::1', '2001:3::1', '2001:10::1', '2001:20::1', '2001:1ff:ffff::1', '2001:db8::', '2001:db8:ffff::1'],
  ...['2002::', '2002:7f00:1::', '2002:ffff:ffff::1', '2620:4f:8000::1', '3fff::', '3fff:fff:ffff::1', '4000::1'],
  ...[
    '5f00::1',
    'fc00::1',
    'fd00:ec2::254',
    'fdff::1',
    'fe80::1',
    'febf::1',
    'fec0::1',
    'ff00::',
    'ff02::1',
    'ffff::1',
  ],
]

const globalAddresses = [
  ...['1.0.0.0', '1.1.1.1', '8.8.8.8', '9.255.255.255', '11.0.0.0', '100.63.255.255', '100.128.0.0', '126.255.255.255'],
  ...['128.0.0.0', '168.63.129.15', '168.63.129.17', '169.253.255.255', '169.255.0.0', '172.15.255.255', '172.32.0.0'],
  ...['192.0.1.0', '192.0.3.0', '192.167.255.255', '192.169.0.0', '198.17.255.255', '198.20.0.0', '223.255.255.255'],
  ...[
    '2000::1',
    '2001:200::1',
    '2001:4860:4860::8888',
    '2001:db7:ffff::1',
    '2001:db9::1',
    '2003::1',
    '2606:4700::1111',
  ],
  ...['2620:4f:7fff::1', '2a00:1450::1', '3ffe:ffff::1', '3fff:1000::1'],
]

const unreadable = [
  '',
  'localhost',
  '127.1',
  '0x7f.0.0.1',
  '0177.0.0.1',
  '8.8.8.8.',
  '[2606::1]',
  '2606::1%eth0',
  'fe80::1%eth0',
  '1.2.3',
]

describe('addressAllowed', () => {
  for (const address of deniedAddresses) {
    it(`T-SSRF-02 rejects ${address}`, () => assert.equal(addressAllowed(production, address), false))
  }

  for (const address of globalAddresses) {
    it(`allows ${address}`, () => assert.equal(addressAllowed(production, address), true))
  }

  for (const text of unreadable) {
    it(`rejects ${JSON.stringify(text)} under any policy, because it is not a plain address`, () => {
      assert.equal(addressAllowed({ allowHttp: true, allowCidrs: ['0.0.0.0/0', '::/0'] }, text), false)
    })
  }

  it('allows private addresses only in the ranges of allowCidrs', () => {
    const policy = { allowHttp: false, allowCidrs: ['10.1.0.0/16', '169.254.169.254/32', 'fd12::/16'] }
    const addresses = [
      '10.1.255.255',
      '169.254.169.254',
      'fd12:3::4',
      '10.2.0.0',
      '169.254.169.253',
      'fd13::1',
      '::ffff:10.1.0.1',
    ]
    assert.deepEqual(
      addresses.map((address) => addressAllowed(policy, address)),
      [true, true, true, false, false, false, false],
    )
  })

  it('T-SSRF-02 allows an IPv4-mapped address only if an allowed range is also IPv4-mapped and contains it', () => {
    assert.equal(addressAllowed({ allowHttp: false, allowCidrs: ['10.0.0.0/8'] }, '::ffff:10.0.0.1'), false)
    assert.equal(addressAllowed({ allowHttp: false, allowCidrs: ['::ffff:10.0.0.0/104'] }, '::ffff:10.0.0.1'), true)
  })

  it('ignores a range it cannot parse', () => {
    const allowCidrs = ['', '127.0.0.1', '127.0.0.0/33', 'localhost/8', '::/129', '/0']
    assert.equal(addressAllowed({ allowHttp: true, allowCidrs }, '127.0.0.1'), false)
    assert.equal(addressAllowed({ allowHttp: true, allowCidrs }, '::1'), false)
  })

  it('agrees with a Node BlockList of the special-purpose ranges on random IPv4 addresses', () => {
    const special = new BlockList()
    for (const block of [
      ...['0.0.0.0/8', '10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '169.254.0.0/16', '172.16.0.0/12', '192.0.0.0/24'],
      ...['192.0.2.0/24', '192.88.99.0/24', '192.168.0.0/16', '198.18.0.0/15', '198.51.100.0/24', '203.0.113.0/24'],
      ...['224.0.0.0/4', '240.0.0.0/4', '192.31.196.0/24', '192.52.193.0/24', '192.175.48.0/24', '168.63.129.16/32'],
    ]) {
      const [base, bits] = block.split('/')
      special.addSubnet(base!, Number(bits), 'ipv4')
    }
    fc.assert(
      fc.property(fc.ipV4(), (address) => addressAllowed(production, address) === !special.check(address, 'ipv4')),
      { numRuns: 3000 },
    )
  })

  it('T-SSRF-02 never allows an IPv6 address outside 2000::/3', () => {
    fc.assert(
      fc.property(fc.ipV6(), (address) => !addressAllowed(production, address) || /^[23][0-9a-f]{3}:/i.test(address)),
    )
  })
})

describe('checkTarget', () => {
  const answering =
    (...addresses: string[]) =>
    async () =>
      addresses.map((address) => ({ address }))
  const never = async () => assert.fail('a literal address was looked up')

  it('accepts a name with only public addresses, and resolves it once, in lower case', async () => {
    const lookups: string[] = []
    const verdict = await checkTarget(production, 'https://EXAMPLE.com:8443/hook', async (name) => {
      lookups.push(name)
      return [{ address: '93.184.215.14' }, { address: '2606:2800:21f::1' }]
    })
    assert.equal(verdict.ok, true)
    assert.deepEqual(lookups, ['example.com'])
  })

  for (const addresses of [
    ['127.0.0.1'],
    ['8.8.8.8', '10.0.0.1'],
    ['8.8.8.8', '::1'],
    ['::ffff:8.8.8.8'],
    ['fe80::1%eth0'],
  ]) {
    it(`T-SSRF-04 rejects a name that resolves to ${addresses.join(' and ')}`, async () => {
      const verdict = await checkTarget(production, 'https://hooks.example/', answering(...addresses))
      assert.deepEqual(verdict, { ok: false, reason: 'must not point to a private or reserved address' })
    })
  }

  it('accepts a name that does not resolve or has no address', async () => {
    const failing = async () => Promise.reject(Object.assign(new Error('no'), { code: 'ENOTFOUND' }))
    assert.equal((await checkTarget(production, 'https://hooks.example/', failing)).ok, true)
    assert.equal((await checkTarget(production, 'https://hooks.example/', answering())).ok, true)
  })

  it('accepts a name that has not resolved after three seconds', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const judged = checkTarget(production, 'https://hooks.example/', () => new Promise(() => {}))
    t.mock.timers.tick(3000)
    assert.equal((await judged).ok, true)
  })

  it('does not resolve rejected URLs, literal addresses or localhost', async () => {
    assert.equal((await checkTarget(production, 'http://hooks.example/', never)).ok, false)
    assert.equal((await checkTarget(production, 'https://8.8.8.8/', never)).ok, true)
    assert.equal((await checkTarget(production, 'https://localhost./', never)).ok, false)
    assert.equal((await checkTarget(development, 'http://localhost/', never)).ok, true)
  })

  it('T-SSRF-04 accepts an unresolvable name with the default resolver', async () => {
    assert.equal((await checkTarget(production, 'https://does-not-exist.invalid/')).ok, true)
  })
})

describe('ssrfSafeConnect', () => {
  it('T-SSRF-03 rejects a blocked literal address even if the URL was never checked', async (t) => {
    const dispatcher = new Agent({ connect: ssrfSafeConnect({ policy: plain }) })
    t.after(() => dispatcher.close())
    for (const host of ['127.0.0.1', '127.1', '[::1]', '[::ffff:7f00:1]']) {
      await assert.rejects(request(`http://${host}:9/`, { dispatcher }), { code: 'CALLBACK_URL_BLOCKED' })
    }
  })
})
