import assert from 'node:assert/strict'
import { createHook } from 'node:async_hooks'
import { hash, randomBytes } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import { type Audit, openAudit } from '../../src/audit/buffer.ts'
import { auditRecorder, operator } from '../../src/audit/chain.ts'
import { networkOf } from '../../src/http/headers/client-address.ts'
import { Problem } from '../../src/http/problems/problem.ts'
import {
  accountByEmail,
  addUser,
  createFirstAdmin,
  openAccount,
  setPasswordHash,
} from '../../src/oauth/users/accounts.ts'
import { invitations, sweepInvitations } from '../../src/oauth/users/invitations.ts'
import { createPasswordLogin, type Login } from '../../src/oauth/users/login.ts'
import { loginTries, sweepLoginTries, tryLimits } from '../../src/oauth/users/login-throttle.ts'
import { defaultCost, passwords } from '../../src/oauth/users/passwords.ts'
import type { Database } from '../../src/storage/database.ts'
import { forEachEngine } from '../support/engines.ts'
import { clock, issuer, quickCost, sealer } from './support.ts'

const good = 'tundra violin marble'

forEachEngine((engine) => {
  const time = clock(Date.parse('2026-11-21T10:00:00.000Z'))
  const hasher = passwords(randomBytes, quickCost)
  let db: Database
  let people = 0
  before(async () => {
    db = await engine.database()
  })
  after(() => db.close())

  const record = auditRecorder(sealer, time.now)
  const auditedEvents = async (target: string) => {
    const rows = db.read.selectFrom('auditEntries').select(['event', 'subject']).where('target', '=', target)
    return (await rows.orderBy('sequence').execute()).map(({ event, subject }) => `${event} by ${subject}`)
  }
  const user = async () => {
    const email = `ada${++people}@example.com`
    return { email, userId: await db.write((tx) => addUser(tx, 'Ada Lovelace', email, time.now())) }
  }
  const account = async (password = good) => {
    const { email, userId } = await user()
    const hash = await hasher.hash(password)
    await db.write(async (tx) => {
      await openAccount(tx, userId, undefined, time.now())
      await setPasswordHash(tx, userId, hash, time.now())
    })
    return { email, userId, password }
  }

  describe('invitations', () => {
    const service = () => invitations({ db, passwords: hasher, issuer, now: time.now, random: randomBytes, record })
    const tokenOf = (url: string) => new URL(url).searchParams.get('token') as string

    it('T-AUTH-04 have links with a 256-bit token, valid for half an hour; only its SHA-256 is stored', async () => {
      const { userId } = await user()
      const { url, expiresAt } = await service().invite(userId, undefined, operator)
      assert.match(url, /^https:\/\/localhost:8443\/oauth\/invitation\?token=[\w-]{43}$/)
      assert.equal(Date.parse(expiresAt), time.now() + 30 * 60_000)
      const rows = await db.read.selectFrom('invitations').selectAll().where('userId', '=', userId).execute()
      assert.equal(rows.length, 1)
      assert.equal(rows[0]?.tokenHash, hash('sha256', tokenOf(url), 'base64url'))
      assert.ok(!JSON.stringify(rows).includes(tokenOf(url)))
    })

    it('T-AUTH-04 let only one of ten concurrent requests set the password', async () => {
      const { email, userId } = await user()
      const token = tokenOf((await service().invite(userId, undefined, operator)).url)
      const all = await Promise.all(Array.from({ length: 10 }, () => service().accept(token, good, {})))
      assert.deepEqual(all.filter((outcome) => outcome === 'set').length, 1)
      assert.equal(all.filter((outcome) => outcome === 'invalid').length, 9)
      assert.deepEqual(await auditedEvents(String(userId)), [
        'invitation.created by command line',
        `password.changed by ${userId}`,
      ])
      assert.ok(await hasher.verify(good, (await accountByEmail(db, email))?.passwordHash ?? null))
    })

    it('T-AUTH-04 reject a guessed token, a replaced link, and a link that is half an hour old', async () => {
      const { userId } = await user()
      const first = tokenOf((await service().invite(userId, undefined, operator)).url)
      const second = tokenOf((await service().invite(userId, undefined, operator)).url)
      assert.equal(await service().accept(first, good, {}), 'invalid')
      assert.equal(await service().accept('guess', good, {}), 'invalid')
      time.pass(30 * 60)
      assert.equal(await service().read(second), undefined)
      assert.equal(await service().accept(second, good, {}), 'invalid')
      time.pass(1)
      await sweepInvitations(db, time.now)
      const left = await db.read.selectFrom('invitations').selectAll().where('userId', '=', userId).execute()
      assert.deepEqual(left, [])
    })

    it('report why a password is rejected, and remain valid afterwards', async () => {
      const { email, userId } = await user()
      const token = tokenOf((await service().invite(userId, undefined, operator)).url)
      for (const password of ['short', 'password1234', email, 'x'.repeat(300)]) {
        assert.ok(typeof (await service().accept(token, password, {})) === 'object', password)
      }
      assert.equal(await service().accept(token, good, {}), 'set')
    })

    it('cannot be created for an unknown user (RESOURCE_NOT_FOUND)', async () => {
      await assert.rejects(service().invite(999_999, undefined, operator), { code: 'RESOURCE_NOT_FOUND' })
    })

    it('T-AUTH-07 revoke the user’s existing grants if the invitation changes the role', async () => {
      const { userId } = await account()
      const row = { kind: 'Grant', payload: '{}', grantId: null, uid: null, userCode: null, consumedAt: null }
      await db.write((tx) =>
        tx
          .insertInto('authRecords')
          .values({ ...row, id: 'g', userId, expiresAt: null })
          .execute(),
      )
      await service().invite(userId, 'user', operator)
      const grants = () => db.read.selectFrom('authRecords').select('id').where('userId', '=', userId).execute()
      assert.equal((await grants()).length, 1)
      await service().invite(userId, 'admin', operator)
      assert.deepEqual(await grants(), [])
    })
  })

  describe('login', () => {
    const loginWith = (limits = tryLimits, hashing = hasher, audit?: Audit): Login =>
      createPasswordLogin({
        db,
        sealer,
        passwords: hashing,
        tries: loginTries(db, sealer, time.now, limits),
        random: randomBytes,
        now: time.now,
        ...(audit && { audit }),
      })
    const roomy = { ...tryLimits, perMinuteAndNetwork: 1_000_000 }

    it('returns the account for the correct password, ignoring case and surrounding space in the address', async () => {
      const { email, userId, password } = await account()
      for (const text of [email, email.toUpperCase(), ` ${email} `]) {
        const result = await loginWith(roomy)({ email: text, password, address: '192.0.2.1' })
        assert.ok('account' in result && result.account.userId === userId)
      }
    })

    it('audits successful and failed logins, but never the submitted e-mail address or password', async () => {
      const audit = openAudit({ db, sealer, now: time.now, onError: (error) => assert.fail(String(error)) })
      const { email, userId, password } = await account()
      const login = loginWith(roomy, hasher, audit)
      const address = '192.0.2.99'
      await login({ email, password, address })
      await login({ email, password: 'hunter2 hunter2', address })
      await login({ email: 'typed by mistake', password: 'hunter2 hunter2', address })
      await audit.flush()
      const rows = await db.read.selectFrom('auditEntries').selectAll().where('address', '=', address).execute()
      assert.deepEqual(
        rows.map(({ event, subject, target }) => [event, subject, target]),
        [
          ['login.succeeded', String(userId), null],
          ['login.failed', null, String(userId)],
          ['login.failed', null, null],
        ],
      )
      assert.doesNotMatch(JSON.stringify(rows), /hunter2|mistake|@example/)
    })

    it('T-AUTH-03 returns the same result for a wrong password, an unknown address, an account without a password and overlong input', async () => {
      const { email } = await account()
      const { email: invited } = await user()
      const tries = [
        { email, password: 'wrong' },
        { email: 'nobody@example.com', password: good },
        { email: invited, password: '' },
        { email, password: 'x'.repeat(100_000) },
        { email: 'x'.repeat(100_000), password: good },
      ]
      for (const attempt of tries) {
        assert.deepEqual(await loginWith(roomy)({ ...attempt, address: '192.0.2.2' }), { waitSeconds: 0 })
      }
    })

    it('T-AUTH-01 allows five attempts, then imposes a delay that doubles; a success resets the count', async () => {
      const { email, password } = await account()
      const login = loginWith(roomy)
      const attempt = (text: string) => login({ email, password: text, address: '192.0.2.3' })
      for (let n = 0; n < 5; n++) assert.deepEqual(await attempt('wrong'), { waitSeconds: 0 })
      for (const seconds of [1, 2, 4, 8]) {
        assert.deepEqual(await attempt(password), { waitSeconds: seconds })
        time.pass(seconds)
        assert.deepEqual(await attempt('wrong'), { waitSeconds: 0 })
      }
      time.pass(16)
      assert.ok('account' in (await attempt(password)))
      assert.deepEqual(await attempt('wrong'), { waitSeconds: 0 })
    })

    it('T-AUTH-01 does not let failed attempts by others lock a user out on a known device', async () => {
      const { email, password } = await account()
      const login = loginWith(roomy)
      const first = await login({ email, password, address: '192.0.2.4' })
      assert.ok('account' in first)
      for (let n = 0; n < 10; n++) await login({ email, password: 'wrong', address: '192.0.2.4' })
      const known = { email, password, address: '192.0.2.4', deviceToken: first.deviceToken }
      assert.ok('account' in (await login(known)))
      for (const deviceToken of ['x', 'x.y', `x.${first.deviceToken.split('.')[1]}`, undefined]) {
        assert.ok(!('account' in (await login({ ...known, deviceToken }))))
      }
      const other = await account()
      for (let n = 0; n < 10; n++) await login({ email: other.email, password: 'wrong', address: '192.0.2.4' })
      const borrowed = { ...known, email: other.email, password: other.password }
      assert.ok(!('account' in (await login(borrowed))), 'the device token of one account is not valid for another')
    })

    it('T-AUTH-01 checks at most 100 passwords per account and hour, even if 1,000 networks each send one', async () => {
      const { email } = await account()
      let hashed = 0
      const counting = { ...hasher, verify: async () => ++hashed < 0 }
      const login = loginWith(roomy, counting)
      for (let n = 0; n < 1_000; n += 50) {
        const address = (at: number) => `2001:db8:${(n + at).toString(16)}::1`
        await Promise.all(Array.from({ length: 50 }, (_, at) => login({ email, password: 'x', address: address(at) })))
      }
      assert.equal(hashed, 100)
      time.pass(3_600)
      await login({ email, password: 'x', address: '2001:db8::1' })
      assert.equal(hashed, 101)
    })

    it('T-AUTH-01 allows 20 attempts per network and minute across all accounts; an IPv6 network is a /64', async () => {
      const login = loginWith()
      const attempt = (n: number, address: string) => login({ email: `spray${n}@example.com`, password: 'x', address })
      for (let n = 0; n < 20; n++) assert.deepEqual(await attempt(n, `2001:db8:9:9::${n}`), { waitSeconds: 0 })
      assert.deepEqual(await attempt(20, '2001:db8:9:9:ffff::1'), { waitSeconds: 60 })
      assert.deepEqual(await attempt(21, '2001:db8:9:8::1'), { waitSeconds: 0 })
      time.pass(60)
      assert.deepEqual(await attempt(22, '2001:db8:9:9::1'), { waitSeconds: 0 })
    })

    it('rehashes a correct password if its hash has an outdated cost', async () => {
      const { email, password } = await account()
      const dearer = passwords(randomBytes, { ...quickCost, passes: 3 })
      assert.ok('account' in (await loginWith(roomy, dearer)({ email, password, address: '192.0.2.5' })))
      assert.match((await accountByEmail(db, email))?.passwordHash ?? '', /^\$argon2id\$v=19\$m=64,t=3,p=1\$/)
      assert.ok('account' in (await loginWith(roomy, dearer)({ email, password, address: '192.0.2.5' })))
    })

    describe('while a password is verified', () => {
      /** A hasher that runs `change` once, after the first verification. */
      const changing = (change: () => Promise<unknown>) => {
        let isChanged = false
        return {
          ...hasher,
          verify: async (password: string, stored: string | null) => {
            const verified = await hasher.verify(password, stored)
            if (!isChanged) await change()
            isChanged = true
            return verified
          },
        }
      }
      const address = '192.0.2.6'

      it('a demotion changes the role that the login returns', async () => {
        const { email, userId, password } = await account()
        const setRole = (role: 'user' | 'admin') => db.write((tx) => openAccount(tx, userId, role, time.now()))
        await setRole('admin')
        // The last administrator cannot be demoted, so create another.
        const other = await account()
        await db.write((tx) => openAccount(tx, other.userId, 'admin', time.now()))
        const result = await loginWith(
          roomy,
          changing(() => setRole('user')),
        )({ email, password, address })
        assert.ok('account' in result && result.account.role === 'user')
      })

      it('a new password makes the login fail', async () => {
        const { email, userId, password } = await account()
        const hash = await hasher.hash('another long password')
        const change = () => db.write((tx) => setPasswordHash(tx, userId, hash, time.now()))
        assert.deepEqual(await loginWith(roomy, changing(change))({ email, password, address }), { waitSeconds: 0 })
        const stored = db.read.selectFrom('accounts').select('lastLoginAt').where('userId', '=', userId)
        assert.equal((await stored.executeTakeFirstOrThrow()).lastLoginAt, null)
      })

      it('storing another hash of the same password, as a concurrent login may do, does not make the login fail', async () => {
        const { email, userId, password } = await account()
        const hash = await hasher.hash(password)
        const change = () => db.write((tx) => setPasswordHash(tx, userId, hash, time.now()))
        assert.ok('account' in (await loginWith(roomy, changing(change))({ email, password, address })))
      })
    })

    it('sweepLoginTries removes expired attempt counters', async () => {
      time.pass(7_200)
      await sweepLoginTries(db, time.now)
      assert.deepEqual(await db.read.selectFrom('loginTries').selectAll().execute(), [])
    })
  })

  it('T-AUTH-07 createFirstAdmin creates only one administrator if called ten times concurrently', async () => {
    await db.write((tx) => tx.deleteFrom('users').execute())
    const made = await Promise.all(
      Array.from({ length: 10 }, () => createFirstAdmin(db, hasher, time.now, randomBytes, record)),
    )
    const [admin, ...more] = made.filter((one) => one !== null)
    assert.ok(admin && more.length === 0)
    const found = await accountByEmail(db, admin.email)
    assert.equal(found?.role, 'admin')
    assert.ok(await hasher.verify(admin.password, found.passwordHash))
    assert.equal(await createFirstAdmin(db, hasher, time.now, randomBytes, record), null)
  })
})

describe('passwords', () => {
  it('are hashed with argon2id (64 MiB, three passes, parallelism 1), and stored with the parameters and the salt', async () => {
    const { hash, verify, isOutdated } = passwords(randomBytes)
    const [one, other] = [await hash(good), await hash(good)]
    assert.match(one, /^\$argon2id\$v=19\$m=65536,t=3,p=1\$[\w+/]{22}\$[\w+/]{43}$/)
    assert.notEqual(one, other)
    assert.ok((await verify(good, one)) && !(await verify(`${good} `, one)))
    assert.deepEqual([isOutdated(one), defaultCost.memory], [false, 65_536])
  })

  it('T-AUTH-02 are hashed four at a time while 32 calls wait; further calls throw SERVICE_UNAVAILABLE', async () => {
    const { verify } = passwords(randomBytes, { memory: 8_192, passes: 2, parallelism: 1 })
    const running = new Set<number>()
    let peak = 0
    let started = 0
    const hook = createHook({
      init: (id, type) => {
        if (!/argon2/i.test(type)) return
        peak = Math.max(peak, running.add(id).size)
        started++
      },
      before: (id) => running.delete(id),
    }).enable()
    const all = await Promise.allSettled(Array.from({ length: 50 }, () => verify('x', null)))
    hook.disable()
    assert.deepEqual([started, peak], [36, 4])
    const refused = all.filter((result) => result.status === 'rejected')
    assert.equal(refused.length, 50 - 36)
    assert.ok(refused.every(({ reason }) => reason instanceof Problem && reason.code === 'SERVICE_UNAVAILABLE'))
    assert.equal(await verify('x', null), false)
  })
})

describe('networkOf', () => {
  it('returns an IPv4 address, or the /64 of an IPv6 address', () => {
    assert.equal(networkOf('192.0.2.7'), '192.0.2.7')
    assert.equal(networkOf('::ffff:192.0.2.7'), '192.0.2.7')
    assert.equal(networkOf('2001:db8:1:2:3:4:5:6'), '2001:db8:1:2::/64')
    assert.equal(networkOf('2001:db8::1'), '2001:db8:0:0::/64')
    assert.equal(networkOf(''), '')
  })
})
