import { onSqlite } from '../support/engines.ts'
import { killRepeatsSuite } from '../support/kill-repeats.ts'

onSqlite(killRepeatsSuite)
