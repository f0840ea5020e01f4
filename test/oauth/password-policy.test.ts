import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { passwordError } from '../../src/oauth/users/password-policy.ts'
import { cpuMsOf } from '../support/cpu.ts'

const owner = { name: 'Ada Lovelace', email: 'ada.lovelace@example.com' }

describe('passwordError', () => {
  const good = [
    'tundra violin marble',
    'correct-horse-tundra-violin',
    'kX9#mQ2$vL7!',
    '7#9$2!4&8*1@a',
    '84920-1837465!',
    'naïve façade 12',
    '            tundra violin',
    'パスワードではない長い文',
    'éééé tundra violin',
  ]
  for (const password of good) {
    it(`accepts "${password}"`, async () => assert.equal(await passwordError(password, owner), undefined))
  }

  const guessable = [
    'password1234',
    'P@ssw0rd1234',
    'Password!2026',
    'Passwort2026!',
    'iloveyou1234',
    'letmein123456',
    'Welcome12345!',
    'Summer2026!!!!',
    'dragonmonkey1',
    'administrator',
    'correcthorsebatterystaple',
    'changeme12345',
    'qwertyuiop12',
    'asdfghjkl123',
    'abcdefghijkl',
    '123456789012',
    '987654321098',
    'aaaaaaaaaaaa',
    'abcabcabcabc',
    'x7x7x7x7x7x7Qp',
    '121212121212',
    'adalovelace1',
    'Lovelace-Ada-99',
    'ada.lovelace@example.com',
    'ADA.LOVELACE2026',
    '112233445566',
    '123321123321',
    '147258369147',
    '159357159357',
    '741852963741',
    '123654789123',
    'qweasdzxc123',
    '123qweasdzxc',
    'zaq12wsxcde3',
    '1qaz2wsx3edc4rfv',
    'qazwsxedcrfv',
    'a1b2c3d4e5f6',
    '1a2b3c4d5e6f',
    'qwe123qwe123',
    'motherfucker',
    'unbelievable',
    'professional',
    'manchesterunited',
    'playstation1',
    'christopher1',
    'jonathan1234',
    'michelle1234',
    'lordoftherings',
    'gameofthrones',
    'gfhjkmgfhjkm',
    'qwertzuiopas',
    'yxcvbnmasdfg',
    'harrypotter1',
    'sonnenschein',
  ]
  for (const password of guessable) {
    it(`rejects "${password}" as easy to guess`, async () =>
      assert.match((await passwordError(password, owner)) ?? '', /easy to guess/))
  }

  it('requires at least 12 characters and allows at most 256 bytes', async () => {
    assert.match((await passwordError('tundra viol', owner)) ?? '', /at least 12 characters/)
    assert.match((await passwordError('🦜🦜🦜🦜🦜🦜', owner)) ?? '', /at least 12 characters/)
    const long = 'tundra violin '.repeat(18)
    assert.equal(await passwordError(long, owner), undefined)
    assert.match((await passwordError(`${long}marble`, owner)) ?? '', /at most 256 bytes/)
  })

  it('takes less than 100 ms of CPU time, even for input designed to be slow', async () => {
    for (const text of [
      'a'.repeat(256),
      'abab'.repeat(64),
      'qwer1'.repeat(51),
      `${'!'.repeat(200)}x`,
      'asdf!'.repeat(51),
      'p@55w0rd'.repeat(32),
      '4@8({[<369&#!1/|0$5+7%2'.repeat(11),
    ]) {
      const ms = await cpuMsOf(() => passwordError(text, owner))
      assert.ok(ms < 100, `${text.slice(0, 10)}… took ${ms} ms`)
    }
  })
})
