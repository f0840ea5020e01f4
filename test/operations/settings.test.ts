import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { readConfig } from '../../src/config/config.ts'
import { describeSettings } from '../../src/config/describe.ts'
import { appOn } from '../support/app.ts'
import { onSqlite } from '../support/engines.ts'

const env = {
  PLINTH_BACKUP_KEEP: '9',
  PLINTH_MASTER_KEY: 'ab'.repeat(32),
  PLINTH_BACKUP_PASSPHRASE: 'correct horse battery staple',
  PLINTH_SMTP_URL: 'smtp://mailer:open@sesame@mail.example.com:587',
  PLINTH_SMTP_FROM: 'plinth@example.com',
  REDIS_URL: 'redis://cache.example.com:6379/0?password=hidden&db=3',
}

onSqlite((engine) => {
  describe('GET /api/settings', () => {
    const service = appOn(engine, { prefixes: [''], operations: { settings: describeSettings(readConfig(env), env) } })
    const list = (query = '', scopes = 'admin') => service.send({ url: `/api/settings${query}`, scopes })

    it('200 with each setting, its value, its default and its source', async () => {
      const answer = await list()
      assert.deepEqual([answer.statusCode, answer.headers['cache-control']], [200, 'private, no-cache'])
      const settings = new Map(answer.json().map((one: { name: string }) => [one.name, one]))
      assert.deepEqual(settings.get('PLINTH_BACKUP_KEEP'), {
        ...{ name: 'PLINTH_BACKUP_KEEP', group: 'backup', value: '9', default: '7', source: 'environment' },
        ...{ about: 'Scheduled backups to keep, and requested ones; older ones are removed', secret: false },
      })
      const { value, default: fallback, source } = settings.get('PLINTH_DATA_DIR') as Record<string, unknown>
      assert.deepEqual([value, fallback, source], ['./data', './data', 'default'])
      const unset = settings.get('PLINTH_BACKUP') as Record<string, unknown>
      assert.deepEqual([unset.value, unset.default, unset.source], [undefined, undefined, 'default'])
      assert.deepEqual([...settings.keys()].length, describeSettings(readConfig({}), {}).length)
    })

    it('hides secrets, and passwords in URLs and in their query parameters', async () => {
      const { body } = await list()
      for (const secret of ['abab', 'battery', 'sesame', 'hidden']) assert.ok(!body.includes(secret), secret)
      const shown = Object.fromEntries(
        (await list()).json().map(({ name, value, secret }: Record<string, unknown>) => [name, [value, secret]]),
      )
      assert.deepEqual(shown.PLINTH_MASTER_KEY, ['…', true])
      assert.deepEqual(shown.PLINTH_SMTP_URL, ['smtp://mailer:…@mail.example.com:587', false])
      assert.deepEqual(shown.REDIS_URL, ['redis://cache.example.com:6379/0?password=…&db=3', false])
    })

    it('200 with only the requested fields, 403 without the admin scope, 401 without a token', async () => {
      assert.deepEqual((await list('?fields=name')).json()[0], { name: 'PLINTH_PROFILE' })
      assert.equal((await list('', 'audit:read')).statusCode, 403)
      assert.equal((await service.send({ url: '/api/settings', scopes: null })).statusCode, 401)
    })
  })
})
