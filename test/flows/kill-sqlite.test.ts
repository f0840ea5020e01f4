import { onSqlite } from '../support/engines.ts'
import { killSuite } from '../support/kill.ts'

onSqlite(killSuite)
