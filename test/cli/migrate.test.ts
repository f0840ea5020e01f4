import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { sql } from 'kysely'
import { openDatabase } from '../../src/storage/open.ts'
import { definitionFolder, itemsDefinition } from '../support/definitions.ts'
import { ended, killAll, newPlace, plinth, serving } from './support.ts'

describe('plinth migrate', () => {
  const { write, remove } = definitionFolder()
  const earlier = write('earlier', itemsDefinition('name: Line(1, 40), price: Type.Number()', "filters: ['price']"))
  let place: Awaited<ReturnType<typeof newPlace>>
  before(async () => {
    place = await newPlace()
    await run(earlier)
    const db = await openDatabase(`${place.dataDir}/plinth.db`)
    for (const price of [1.5, 2]) {
      await db.write((tx) =>
        sql`
          insert into resource_items (name, price, revision, created_at, updated_at)
          values (${`N${price}`}, ${price}, 1, '2026-03-01T12:00:00.000Z', '2026-03-01T12:00:00.000Z')`.execute(tx),
      )
    }
    await db.close()
  })
  after(() => {
    killAll()
    remove()
    place.remove()
  })
  const run = async (...args: string[]) => {
    const { code, stdout, stderr } = await ended(plinth(['migrate', ...args], place.env))
    return { code, stdout, stderr }
  }

  it('--help names every option', async () => {
    const { stdout } = await run('--help')
    assert.equal(
      stdout,
      `Usage: plinth migrate [options] [definition]

Bring the database schema up to date and exit

Arguments:
  definition         file whose default export is a service(); default:
                     PLINTH_DEFINITION, "plinth" in package.json, or
                     ./service.ts

Options:
  --plan             print what would be done, with the number of rows; exit
                     code 3 if that is anything, else 0
  --history          print every change of the tables so far
  --tidy             rename the columns of renamed fields; the service must be
                     stopped
  --allow-data-loss  drop fields and collections that are no longer declared;
                     the service must be stopped
  -h, --help         display help for command
`,
    )
  })

  it('--plan exits with 3 if there are pending changes, otherwise with 0; migrating exits with 2 while the service runs', async () => {
    const converted = write(
      'converted',
      itemsDefinition(
        "title: Line(1, 40), price: Decimal(12, 2), currency: Type.Enum(['EUR', 'USD'])",
        "filters: ['price'], migrate: { renamed: { title: 'name' }, fill: { currency: 'EUR' }, convert: { price: (old) => old.toFixed(2) } }",
      ),
    )
    const plan = await run('--plan', converted)
    assert.deepEqual(plan, {
      code: 3,
      stdout: `alter table "resource_items" add column "price__new" bigint;
-- convert price of resource_items from number to decimal with scale 2 in 2 rows
drop index if exists "resource_items_price";
alter table "resource_items" rename column "price" to "price_old";
alter table "resource_items" rename column "price__new" to "price";
create index "resource_items_price" on "resource_items" ("price", "id");
-- rename name to title, which keeps the column name; no row changes
alter table "resource_items" add column "currency" text default 'EUR';
-- fill currency of resource_items in 2 rows, as the default of the column
`,
      stderr: '',
    })
    const service = await serving(place.dataDir, Number(place.env.PLINTH_PORT), {
      ...place.env,
      PLINTH_DEFINITION: earlier,
    })
    const refused = await run(converted)
    assert.equal(refused.code, 2)
    assert.match(refused.stderr, /plinth\.db is used by process \d+, started at \S+: stop it first\n$/)
    service.child.kill('SIGTERM')
    assert.equal((await ended(service)).code, 0)
    const started = await ended(plinth(['serve', converted], place.env))
    assert.deepEqual(
      [started.code, started.stderr],
      [
        2,
        'plinth: /items: the field price has to be converted from number in 2 rows of resource_items. Stop all nodes that use this database, and run plinth migrate\n',
      ],
    )
    assert.deepEqual(await run(converted), {
      ...{ code: 0, stdout: plan.stdout },
      stderr: 'plinth: resource_items.price: 0 of 2 rows\n',
    })
    assert.deepEqual(await run('--plan', converted), { code: 0, stdout: 'The schema is up to date\n', stderr: '' })
    const history = (await run('--history', converted)).stdout.split('\n')
    const at = '\\d{4}-\\d{2}-\\d{2}T\\S+Z'
    assert.match(history[0] ?? '', new RegExp(`^${at}  2\\.0  resource_items  0 rows  create table "resource_items" `))
    assert.match(
      history.find((line) => line.includes('convert')) ?? '',
      new RegExp(
        `^${at}  2\\.0  resource_items  2 rows  convert price of resource_items from number to decimal with scale 2$`,
      ),
    )
    const tidied = await run('--tidy', converted)
    assert.deepEqual(tidied, {
      ...{ code: 0, stderr: '' },
      stdout: `alter table "resource_items" rename column "name" to "title";
`,
    })
  })

  it('exits with 2 for an undeclared column; with --allow-data-loss, drops the column and prints what it drops', async () => {
    const less = write('less', itemsDefinition('title: Line(1, 40), price: Decimal(12, 2)', "filters: ['price']"))
    const refused = await run(less)
    assert.equal(refused.code, 2)
    assert.match(
      refused.stderr,
      /currency is no longer declared.* remove it with its data with plinth migrate --allow-data-loss:\n/,
    )
    const dropped = `alter table "resource_items" drop column "currency";
-- remove resource_items.currency with its values in 2 rows
`
    assert.deepEqual(await run('--plan', '--allow-data-loss', less), { code: 3, stdout: dropped, stderr: '' })
    assert.deepEqual(await run('--allow-data-loss', less), { code: 0, stdout: dropped, stderr: '' })
  })
})
